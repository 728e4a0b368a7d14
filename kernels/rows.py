"""How packed query tokens belong to the rows of a ragged batch: what every launch over them needs to know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch


@dataclass(frozen=True, slots=True)
class RaggedRows:
    """How N packed query tokens belong to R rows. Row r's queries are `first[r] ... first[r] + count[r] - 1`.

    `first`, `count`, `length` int32 [R]: `length` is the slots in use before the new tokens, whose own keys and values
    are already in the slots behind. `position` int64 [N] is each token's place in its row's text, shared prefix
    included; it decides what a token may see. `max_count` bounds `count` from above. `host` repeats (length, count)
    per row for the two variants whose launches depend on them.
    """

    first: torch.Tensor
    count: torch.Tensor
    length: torch.Tensor
    position: torch.Tensor
    max_count: int
    host: tuple[tuple[int, int], ...] | None = None

    @classmethod
    def of(cls, lengths: Sequence[int], counts: Sequence[int], device: torch.device, n_before: int = 0) -> RaggedRows:
        """Return rows that bring `counts[r]` tokens behind `lengths[r]` slots and a shared prefix of `n_before`."""
        first = [0, *accumulate(counts)][:-1]
        position = [n_before + length + t for length, n in zip(lengths, counts, strict=True) for t in range(n)]
        starts, n_new, n_old = torch.tensor([first, [*counts], [*lengths]], dtype=torch.int32, device=device)
        return cls(
            first=starts,
            count=n_new,
            length=n_old,
            position=torch.tensor(position, dtype=torch.int64, device=device),
            max_count=max(counts),
            host=tuple(zip(lengths, counts, strict=True)),
        )

    def one(self, r: int) -> RaggedRows:
        """Return row `r` alone."""
        assert self.host is not None
        here = slice(r, r + 1)
        count = self.host[r][1]
        return RaggedRows(self.first[here], self.count[here], self.length[here], self.position, count)


@dataclass(frozen=True, slots=True)
class Prefix:
    """Keys and values that all rows begin with, stored once: `keys`, `values` [Hkv, P, D]."""

    keys: torch.Tensor
    values: torch.Tensor

    @property
    def n_slots(self) -> int:
        """P, the tokens of the prefix."""
        return self.keys.shape[1]
