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
from itertools import groupby
from statistics import median_low

import torch

from decoding.memory.pages import index_heads
from kernels.rows import RaggedRows
from kernels.upload import upload

# Attention reads key slots in multiples of this. Masked slots after a row's last token add exact zeros, and PyTorch's
# attention on a CPU sums in an order that is the same for all such numbers of slots, so that the sum does not depend on
# how long the other rows of a batch are (docs/decoding-texts.md). It takes blocks of 512 slots. A last
# block of 256 is the exception: on a CPU of AMD's Zen 5 its sum over the values takes another order.
SLOT_MULTIPLE = 128
_BLOCK, _NEVER_LAST = 512, 256
# A row with more than this many times the tokens of a usual one gets an attention of its own: PyTorch pads all rows of
# a call to the longest.
_LONG = 4


def round_up_slots(n: int) -> int:
    """Return `n` slots rounded up to a number of them that attention reads."""
    slots = -(-n // SLOT_MULTIPLE) * SLOT_MULTIPLE
    return slots + SLOT_MULTIPLE if slots % _BLOCK == _NEVER_LAST else slots


def build_padded_index(counts: Sequence[int]) -> list[list[int]]:
    """Return the packed index of each row's t-th token, [R, T]; short rows repeat their last one."""
    T, N = max(counts), sum(counts)
    index, n_before = [], 0
    for count in counts:
        # A row without tokens has to repeat some token: the next row's first, or the last of all.
        index.append([min(n_before + min(t, max(count - 1, 0)), N - 1) for t in range(T)])
        n_before += count
    return index


@dataclass(frozen=True)
class Layout:
    """A forward over N packed tokens of R rows: which token belongs to which row, and where it is in the cache."""

    rows: RaggedRows  # which token belongs to which row, and the pages of each row
    slot: torch.Tensor  # int64 [N], where each token is: page * page_size + offset
    is_dense: bool = False

    @classmethod
    def build(
        cls,
        lens: Sequence[int],
        counts: Sequence[int],
        device: torch.device,
        slot: torch.Tensor,
        page_table: torch.Tensor,
        page_size: int,
    ) -> Layout:
        """Pack `counts[r]` new tokens per row after `lens[r]` committed ones; a row may sit out with none.

        `page_table` are the pages of each row, int32 [R, M].
        """
        return cls(RaggedRows.build(lens, counts, device, page_table, page_size), slot)

    @property
    def lens(self) -> tuple[int, ...]:
        """The committed tokens of each row."""
        return tuple(length for length, _ in self._lengths_and_counts)

    @property
    def counts(self) -> tuple[int, ...]:
        """The new tokens of each row."""
        return tuple(count for _, count in self._lengths_and_counts)

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
        return max(length + count for length, count in self._lengths_and_counts)

    @cached_property
    def attended(self) -> int:
        """L, the cache slots that attention reads: `longest`, rounded up so that sums do not depend on it."""
        return round_up_slots(self.longest)

    @cached_property
    def padded_index(self) -> torch.Tensor:
        """The packed index of each row's t-th token, [R, T]: T the longest count, short rows repeat their last one."""
        return upload(build_padded_index(self.counts), self.slot.device)

    @cached_property
    def packed_index(self) -> torch.Tensor:
        """The index of each packed token in the flattened [R * T] rectangle, [N]."""
        T = max(self.counts)
        cells = [cell for r, count in enumerate(self.counts) for cell in range(r * T, r * T + count)]
        return upload(cells, self.slot.device)

    @cached_property
    def is_rectangular(self) -> bool:
        """Whether every row brings the same number of tokens, so that packing is a mere view."""
        return len(set(self.counts)) == 1

    def find_last_positions(self, n_last: Sequence[int]) -> torch.Tensor:
        """Return the positions in their texts of the last `n_last[r]` tokens of each row, [sum(n_last)]."""
        ends = [length + count for length, count in self._lengths_and_counts]
        positions = [position for end, n in zip(ends, n_last, strict=True) for position in range(end - n, end)]
        return upload(positions, self.slot.device)

    @cached_property
    def parts(self) -> list[Layout]:
        """The layouts of neighbouring rows, a much longer one than usual by itself; this one alone if there is none."""
        usual = max(median_low(self.counts), 1)
        is_long = [count > _LONG * usual for count in self.counts]
        if not any(is_long):
            return [self]
        runs = [list(run) for _, run in groupby(range(self.n_rows), lambda r: r if is_long[r] else -1)]
        slices = [slice(run[0], run[-1] + 1) for run in runs]
        return [self._select_rows(rows) for rows in slices if any(self.counts[rows])]

    def _select_rows(self, rows: slice) -> Layout:
        first_token = sum(self.counts[: rows.start])
        slot = self.slot[first_token : first_token + sum(self.counts[rows])]
        return Layout.build(
            self.lens[rows], self.counts[rows], slot.device, slot, self._page_table[rows], self.rows.page_size
        )

    @cached_property
    def _attended_slots(self) -> torch.Tensor:
        """The slot of each key that attention reads, [R, L]; past a row's end the first slot of all, which is zero."""
        page_size = self.rows.page_size
        position = torch.arange(self.attended, device=self.slot.device)  # [L]
        page_index = (position // page_size).clamp(max=self._page_table.shape[1] - 1)
        slot = self._page_table.long()[:, page_index] * page_size + position % page_size
        end = upload([length + count for length, count in self._lengths_and_counts], slot.device)  # [R]
        return slot.masked_fill_(position >= end[:, None], 0)

    def gather_pages(self, pages: torch.Tensor) -> torch.Tensor:
        """Return the rows [R, H, L, D] of pages [P, H, page_size, D]."""
        index = index_heads(self._attended_slots, pages)
        return pages.flatten(0, 2).index_select(0, index.flatten()).view(*index.shape, -1)

    @cached_property
    def dense(self) -> Layout:
        """This layout over what `gather_pages` returns: each row is one long page."""
        page_table = torch.arange(self.n_rows, dtype=torch.int32, device=self.slot.device)[:, None]
        return replace(self, rows=replace(self.rows, page_table=page_table, page_size=self.attended), is_dense=True)

    @property
    def _page_table(self) -> torch.Tensor:
        assert self.rows.page_table is not None
        return self.rows.page_table

    @property
    def _lengths_and_counts(self) -> tuple[tuple[int, int], ...]:
        assert self.rows.lengths_and_counts is not None  # only in CUDA graphs are lengths on the device alone
        return self.rows.lengths_and_counts
