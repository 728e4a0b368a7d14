"""Which packed query tokens belong to which row of a ragged batch: what every kernel of a verify is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch

NO_TOKEN = -1
"""Where nothing was proposed, or nothing is emitted."""


@dataclass(frozen=True, slots=True)
class RaggedRows:
    """Assigns N packed query tokens to R rows: row r has tokens `query_start[r]` to `query_start[r] + count[r] - 1`."""

    query_start: torch.Tensor  # int32 [R]
    count: torch.Tensor  # int32 [R]
    # int32 [R]: slots in use before the new tokens; their keys and values are already in the slots after those
    length: torch.Tensor
    # int64 [N]: each token's position in its row's text; a token sees the keys up to its position
    position: torch.Tensor
    max_count: int  # an upper bound of `count`
    host: tuple[tuple[int, int], ...] | None = None  # (length, count) per row for kernels whose launches depend on them

    @classmethod
    def of(cls, lengths: Sequence[int], counts: Sequence[int], device: torch.device) -> RaggedRows:
        """Return rows with `counts[r]` new tokens after `lengths[r]` slots."""
        start = [0, *accumulate(counts)][:-1]
        position = [length + t for length, n in zip(lengths, counts, strict=True) for t in range(n)]
        starts, n_new, n_old = torch.tensor([start, [*counts], [*lengths]], dtype=torch.int32, device=device)
        return cls(
            query_start=starts,
            count=n_new,
            length=n_old,
            position=torch.tensor(position, dtype=torch.int64, device=device),
            max_count=max(counts),
            host=tuple(zip(lengths, counts, strict=True)),
        )

    def one(self, r: int) -> RaggedRows:
        """Return row `r` alone, for a separate launch."""
        assert self.host is not None
        here = slice(r, r + 1)
        count = self.host[r][1]
        return RaggedRows(self.query_start[here], self.count[here], self.length[here], self.position, count)
