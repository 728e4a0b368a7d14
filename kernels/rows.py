"""Which packed query tokens and which pages belong to which row of a ragged batch: what every kernel is told.

The keys and values of a layer lie in a pool of pages, [P, Hkv, page_size, D] in logical order; token t of row r is at
`pool[page_table[r, t // page_size], :, t % page_size]`. Rows may share pages. Page 0 is reserved: it belongs to no row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch

from kernels.upload import upload

NO_TOKEN = -1
"""Where nothing was proposed, or nothing is emitted."""


@dataclass(frozen=True, slots=True)
class RaggedRows:
    """Assigns N packed query tokens to R rows: row r has tokens `query_start[r]` to `query_start[r] + count[r] - 1`."""

    query_start: torch.Tensor  # int32 [R]
    count: torch.Tensor  # int32 [R]
    # int32 [R]: tokens before the new ones; the new ones' keys and values already lie in the slots after them
    length: torch.Tensor
    # int64 [N]: each token's position in its row's text; a token sees the keys up to its position
    position: torch.Tensor
    max_count: int  # an upper bound of `count`
    # (length, count) per row for kernels whose launches depend on them
    lengths_and_counts: tuple[tuple[int, int], ...] | None = None
    # int32 [R, M]: the pages of each row in the order of its tokens, 0 past its last one
    page_table: torch.Tensor | None = None
    page_size: int = 0  # tokens of a page; 0 without `page_table`

    @classmethod
    def build(
        cls,
        lengths: Sequence[int],
        counts: Sequence[int],
        device: torch.device,
        page_table: torch.Tensor | None = None,
        page_size: int = 0,
    ) -> RaggedRows:
        """Return rows with `counts[r]` new tokens after `lengths[r]` others, in the pages `page_table`."""
        start = [0, *accumulate(counts)][:-1]
        position = [length + t for length, n in zip(lengths, counts, strict=True) for t in range(n)]
        starts, n_new, n_old = upload(torch.tensor([start, [*counts], [*lengths]], dtype=torch.int32), device)
        return cls(
            query_start=starts,
            count=n_new,
            length=n_old,
            position=upload(torch.tensor(position, dtype=torch.int64), device),
            max_count=max(counts),
            lengths_and_counts=tuple(zip(lengths, counts, strict=True)),
            page_table=page_table,
            page_size=page_size,
        )

    @property
    def pages(self) -> torch.Tensor:
        """The pages of each row, int32 [R, M]. Raises ValueError for rows without pages."""
        if self.page_table is None:
            raise ValueError("these rows have no pages: give `page_table` and `page_size`")
        return self.page_table

    def select_row(self, r: int) -> RaggedRows:
        """Return row `r` alone, with the pages that it fills, for a separate launch."""
        assert self.lengths_and_counts is not None
        here, (length, count) = slice(r, r + 1), self.lengths_and_counts[r]
        n_pages = max(-(-(length + count) // self.page_size), 1)
        return replace(
            self,
            query_start=self.query_start[here],
            count=self.count[here],
            length=self.length[here],
            max_count=count,
            lengths_and_counts=None,
            page_table=self.pages[here, :n_pages],
        )


def find_slots(page_table: torch.Tensor, row: torch.Tensor, position: torch.Tensor, page_size: int) -> torch.Tensor:
    """Return where tokens at `position` [N] of rows `row` [N] are: page * page_size + offset, int64 [N].

    -1 for a position past the table. Tensor operations alone, so that a captured CUDA graph can hold them.
    """
    place = position // page_size
    page = page_table[row, place.clamp(max=page_table.shape[1] - 1)].long()
    return torch.where(place < page_table.shape[1], page * page_size + position % page_size, -1)
