"""Where each token of a ragged forward belongs: the packing shared by model, cache and attention.

The rows of a batch bring different numbers of tokens (a row without a draft brings one, a row with a long draft
many), so a forward packs them end to end as `[1, N]`: every linear layer then works on real tokens only, and only
attention needs to know the rows. BASS keeps queries rectangular and pads short drafts; packing costs nothing and
lets each row have its own draft length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, groupby
from statistics import median_low

import torch

from kernels.rows import RaggedRows

# Attention reads key slots in multiples of this. Masked slots after a row's last token add exact zeros, and PyTorch's
# attention on a CPU sums in an order that is the same for all such numbers of slots, so that the sum does not depend on
# how long the other rows of a batch are (docs/decoding-texts.md). It takes blocks of 512 slots. A last
# block of 256 is the exception: on a CPU of AMD's Zen 5 its sum over the values takes another order.
SLOT_MULTIPLE = 128
_BLOCK, _NEVER_LAST = 512, 256
# A row with more than this many times the tokens of a usual one gets an attention of its own: PyTorch pads all rows of
# a call to the longest.
_LONG = 4


def padded_slots(n: int) -> int:
    """Return `n` slots rounded up to a number of them that attention reads."""
    slots = -(-n // SLOT_MULTIPLE) * SLOT_MULTIPLE
    return slots + SLOT_MULTIPLE if slots % _BLOCK == _NEVER_LAST else slots


def rectangle(counts: Sequence[int]) -> list[list[int]]:
    """Return the packed index of each row's t-th token, [R, T]; short rows repeat their last one."""
    T, N = max(counts), sum(counts)
    found, packed = [], 0
    for count in counts:
        found.append([min(packed + min(t, max(count - 1, 0)), N - 1) for t in range(T)])
        packed += count
    return found


@dataclass(frozen=True)
class Layout:
    """A forward over N packed tokens of R rows: which token belongs to which row, and where it is in the cache."""

    rows: RaggedRows  # which token belongs to which row
    first_slot: int  # the rows use the cache's slots from this one on
    slot: torch.Tensor  # [N], of each token
    # [R, T]: packed index of each row's t-th token (T the longest count, short rows repeat their last token)
    gather: torch.Tensor
    scatter: torch.Tensor  # [N]: index of each packed token in the flattened [R * T] rectangle
    shelf: int = 0  # the key of the shelf that the rows are in
    # [n]: where the tokens of one of several groups are in the whole forward
    tokens: torch.Tensor | None = None
    # of each row its shelf and its slot there, where these rows are not side by side in one shelf
    places: tuple[tuple[int, int], ...] | None = None

    @classmethod
    def build(
        cls, lens: Sequence[int], counts: Sequence[int], device: torch.device, places: Sequence[tuple[int, int]]
    ) -> Layout:
        """Pack `counts[r]` new tokens per row after `lens[r]` committed ones; a row may sit out with none.

        `places` are the shelf of each row and its slot there.
        """
        T = max(counts)
        slot: list[int] = []
        scatter: list[int] = []
        for r, count in enumerate(counts):
            slot += [places[r][1]] * count
            scatter += range(r * T, r * T + count)
        make = torch.tensor
        shelf, first_slot = places[0]
        are_neighbours = all(place == (shelf, first_slot + r) for r, place in enumerate(places))
        return cls(
            rows=RaggedRows.of(lens, counts, device),
            first_slot=first_slot,
            slot=make(slot, device=device),
            gather=make(rectangle(counts), device=device),
            scatter=make(scatter, device=device),
            shelf=shelf,
            places=None if are_neighbours else tuple(places),
        )

    @property
    def lens(self) -> tuple[int, ...]:
        """The committed tokens of each row."""
        return tuple(length for length, _ in self._host)

    @property
    def counts(self) -> tuple[int, ...]:
        """The new tokens of each row."""
        return tuple(count for _, count in self._host)

    @property
    def position(self) -> torch.Tensor:
        """Each token's position in the text of its row, [N]."""
        return self.rows.position

    @property
    def n_rows(self) -> int:
        """R, the rows of this forward."""
        return self.rows.count.shape[0]

    @property
    def longest(self) -> int:
        """Cache slots in use after this forward by the longest row."""
        return max(length + count for length, count in self._host)

    @cached_property
    def attended(self) -> int:
        """L, the cache slots that attention reads: `longest`, rounded up so that sums do not depend on it."""
        return padded_slots(self.longest)

    @cached_property
    def is_rectangular(self) -> bool:
        """Whether every row brings the same number of tokens, so that packing is a mere view."""
        return len(set(self.counts)) == 1

    def last_positions(self, n_last: Sequence[int]) -> torch.Tensor:
        """Return the positions in their texts of the last `n_last[r]` tokens of each row, [sum(n_last)]."""
        ends = [length + count for length, count in self._host]
        places = [at for end, n in zip(ends, n_last, strict=True) for at in range(end - n, end)]
        return torch.tensor(places, device=self.slot.device)

    @cached_property
    def groups(self) -> list[Layout]:
        """The layouts of rows that are side by side in one shelf, in the order of their slots; this one if all are."""
        if self.places is None:
            return [self]
        order = sorted(range(self.n_rows), key=self.places.__getitem__)
        runs = groupby(enumerate(order), lambda at: (self._places[at[1]][0], self._places[at[1]][1] - at[0]))
        found = [self._of_rows([r for _, r in run]) for _, run in runs]
        return [group for group in found if any(group.counts)]

    @cached_property
    def parts(self) -> list[Layout]:
        """The layouts of neighbouring rows, a much longer one than usual by itself; this one alone if there is none."""
        usual = max(median_low(self.counts), 1)
        long = [count > _LONG * usual for count in self.counts]
        if not any(long):
            return [self]
        runs = groupby(range(self.n_rows), lambda r: r if long[r] else -1)
        found = [self._of_rows(list(run)) for _, run in runs]
        return [part for part in found if any(part.counts)]

    def _of_rows(self, rows: Sequence[int]) -> Layout:
        """Return the layout of some of the rows, packed in this order."""
        lens, counts = ([each[r] for r in rows] for each in (self.lens, self.counts))
        starts = [0, *accumulate(self.counts)]
        tokens = [t for r in rows for t in range(starts[r], starts[r + 1])]
        part = Layout.build(lens, counts, self.slot.device, [self._places[r] for r in rows])
        return replace(part, tokens=torch.tensor(tokens, device=self.slot.device))

    @property
    def _places(self) -> Sequence[tuple[int, int]]:
        return self.places or [(self.shelf, self.first_slot + r) for r in range(self.n_rows)]

    @property
    def _host(self) -> tuple[tuple[int, int], ...]:
        assert self.rows.host is not None  # only in CUDA graphs are lengths on the device alone
        return self.rows.host
