"""Where each token of a ragged forward belongs: the packing shared by model, cache and attention.

The rows of a batch bring different numbers of tokens (a row without a draft brings one, a row with a long draft
many), so a forward packs them end to end as `[1, N]`: every linear layer then works on real tokens only, and only
attention needs to know the rows. BASS keeps queries rectangular and pads short drafts; packing costs nothing and
lets each row have its own draft length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

# Attention reads key slots in multiples of this: the size of the blocks in which PyTorch's attention on a CPU sums over
# keys. Masked slots behind a row's last token add exact zeros, and with every block of one size the order of summation
# no longer depends on how long the rows of a batch are (docs/decoding.md, "Texts and timing").
SLOT_MULTIPLE = 512


def padded_slots(n: int) -> int:
    """Return `n` slots rounded up to the multiple that attention reads."""
    return -(-n // SLOT_MULTIPLE) * SLOT_MULTIPLE


@dataclass(frozen=True, slots=True)
class Layout:
    """N packed tokens of R rows; row r brings `counts[r]` tokens after its `lens[r]` committed ones.

    The rows lie in the cache's slots from `first_slot` on. Tensors: `slot` and `position` [N] are each token's place;
    `gather` [R, T] lists the packed index of each row's t-th token (T the longest count, short rows repeat their last
    token); `scatter` [N] is the index of each packed token in the flattened [R * T] rectangle.
    """

    first_slot: int
    lens: tuple[int, ...]
    counts: tuple[int, ...]
    slot: torch.Tensor
    position: torch.Tensor
    gather: torch.Tensor
    scatter: torch.Tensor

    @classmethod
    def build(cls, lens: Sequence[int], counts: Sequence[int], device: torch.device, first_slot: int = 0) -> Layout:
        """Pack `counts[r]` new tokens per row behind `lens[r]` committed ones; a row may sit out with none."""
        T, N = max(counts), sum(counts)
        slot: list[int] = []
        position: list[int] = []
        gather: list[list[int]] = []
        scatter: list[int] = []
        packed = 0
        for r, (length, count) in enumerate(zip(lens, counts, strict=True)):
            slot += [first_slot + r] * count
            position += range(length, length + count)
            gather.append([min(packed + min(t, max(count - 1, 0)), N - 1) for t in range(T)])
            scatter += range(r * T, r * T + count)
            packed += count
        make = torch.tensor
        return cls(
            first_slot=first_slot,
            lens=tuple(lens),
            counts=tuple(counts),
            slot=make(slot, device=device),
            position=make(position, device=device),
            gather=make(gather, device=device),
            scatter=make(scatter, device=device),
        )

    @property
    def n_rows(self) -> int:
        """R, the rows of this forward."""
        return len(self.counts)

    @property
    def longest(self) -> int:
        """Cache slots in use after this forward by the longest row."""
        return max(a + b for a, b in zip(self.lens, self.counts, strict=True))

    @property
    def attended(self) -> int:
        """L, the cache slots that attention reads: `longest`, rounded up so that sums do not depend on it."""
        return padded_slots(self.longest)

    @property
    def is_rectangular(self) -> bool:
        """Whether every row brings the same number of tokens, so that packing is a mere view."""
        return len(set(self.counts)) == 1
