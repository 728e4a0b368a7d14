"""Which packed query tokens belong to which row of a ragged batch: the arguments of every attention launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch


@dataclass(frozen=True, slots=True)
class RaggedRows:
    """Assigns N packed query tokens to R rows: row r has tokens `query_start[r]` to `query_start[r] + count[r] - 1`.

    `query_start`, `count` and `length` are int32 [R]. `length` counts the slots in use before the new tokens; the
    keys and values of the new tokens are already in the slots after those. `position` int64 [N] is each token's place
    in its row's text, shared prefix included; a token sees the keys up to its position. `max_count` is an upper bound
    of `count`. `host` repeats (length, count) per row for kernels whose launches depend on them.
    """

    query_start: torch.Tensor
    count: torch.Tensor
    length: torch.Tensor
    position: torch.Tensor
    max_count: int
    host: tuple[tuple[int, int], ...] | None = None

    @classmethod
    def of(cls, lengths: Sequence[int], counts: Sequence[int], device: torch.device, n_before: int = 0) -> RaggedRows:
        """Return rows with `counts[r]` new tokens after `lengths[r]` slots and a shared prefix of `n_before` slots."""
        start = [0, *accumulate(counts)][:-1]
        position = [n_before + length + t for length, n in zip(lengths, counts, strict=True) for t in range(n)]
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
        """Return row `r` alone, for a launch of its own."""
        assert self.host is not None
        here = slice(r, r + 1)
        count = self.host[r][1]
        return RaggedRows(self.query_start[here], self.count[here], self.length[here], self.position, count)


@dataclass(frozen=True, slots=True)
class Prefix:
    """Keys and values of a prefix that all rows share, stored once: `keys` and `values` [Hkv, P, D]."""

    keys: torch.Tensor
    values: torch.Tensor

    @property
    def n_slots(self) -> int:
        """P, the tokens of the prefix."""
        return self.keys.shape[1]
