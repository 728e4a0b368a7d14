"""Which packed query tokens belong to which row of a ragged batch: what every kernel of a verify is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch

NO_TOKEN = -1
"""Where nothing was proposed, or nothing is emitted."""


def find_slots(blocks: torch.Tensor, row: torch.Tensor, position: torch.Tensor, page_size: int) -> torch.Tensor:
    """Return the slot of each token in the pool, int64 [N]: page * page_size + offset; -1 past the end of the table.

    `blocks` is int32 [R, M]; `row` and `position`, int64 [N], say which tokens. These are operations on tensors alone,
    so that a captured CUDA graph may contain them.
    """
    page, last = position // page_size, blocks.shape[1] - 1
    slot = blocks[row, page.clamp(max=last)].long() * page_size + position % page_size
    return slot.masked_fill(page > last, -1)


@dataclass(frozen=True, slots=True)
class RaggedRows:
    """Assigns N packed query tokens to R rows: row r has tokens `query_start[r]` to `query_start[r] + count[r] - 1`.

    The keys and values of all rows lie in the pages of one pool, [P, Hkv, page_size, D]. Token t of row r is in slot
    `t % page_size` of page `blocks[r, t // page_size]`; rows may share pages. On a GPU the work is divided by the width
    of the table, so that a caller who knows how long rows are may pass its first columns alone.
    """

    query_start: torch.Tensor  # int32 [R]
    count: torch.Tensor  # int32 [R]
    # int32 [R]: slots in use before the new tokens; their keys and values are already in the slots after those
    length: torch.Tensor
    # int64 [N]: each token's position in its row's text; a token sees the keys up to its position
    position: torch.Tensor
    max_count: int  # an upper bound of `count`
    # int32 [R, M]: the pages of each row; past its last page 0, a page that no row has. None: row r is page r
    blocks: torch.Tensor | None = None
    page_size: int = 0  # tokens of a page, where there are `blocks`
    host: tuple[tuple[int, int], ...] | None = None  # (length, count) per row for kernels whose launches depend on them

    def __post_init__(self) -> None:
        if self.blocks is not None:
            assert self.blocks.dtype is torch.int32
            assert self.blocks.stride(1) == 1
            assert len(self.blocks) == len(self.count)

    @classmethod
    def of(
        cls,
        lengths: Sequence[int],
        counts: Sequence[int],
        device: torch.device,
        blocks: torch.Tensor | None = None,
        page_size: int = 0,
    ) -> RaggedRows:
        """Return rows with `counts[r]` new tokens after `lengths[r]` in the pages `blocks[r]`."""
        start = [0, *accumulate(counts)][:-1]
        position = [length + t for length, n in zip(lengths, counts, strict=True) for t in range(n)]
        starts, n_new, n_old = torch.tensor([start, [*counts], [*lengths]], dtype=torch.int32, device=device)
        return cls(
            query_start=starts,
            count=n_new,
            length=n_old,
            position=torch.tensor(position, dtype=torch.int64, device=device),
            max_count=max(counts),
            blocks=blocks,
            page_size=page_size,
            host=tuple(zip(lengths, counts, strict=True)),
        )

    def one(self, r: int) -> RaggedRows:
        """Return row `r` alone, for a separate launch."""
        assert self.host is not None
        here = slice(r, r + 1)
        return replace(
            self,
            query_start=self.query_start[here],
            count=self.count[here],
            length=self.length[here],
            max_count=self.host[r][1],
            blocks=None if self.blocks is None else self.blocks[here],
            host=self.host[here],
        )

    def table(self, keys: torch.Tensor) -> torch.Tensor:
        """Return the block table of these rows, int32 [R, M], for pools [P, H, page_size, D] such as `keys`."""
        if self.blocks is None:
            return torch.arange(len(self.count), dtype=torch.int32, device=keys.device)[:, None]
        assert keys.shape[2] == self.page_size
        return self.blocks
