"""What a drafter is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch

from decoding.acceptance.sampling import Distribution
from decoding.attention.runner import Ahead
from decoding.state.row import Row

PENDING = -2
"""In the place of a draft token that is still on the device."""

MODEL_EVIDENCE = 0
"""The evidence behind a draft model's tokens; a lookup's is the length of its match, from 1."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Draft tokens per row (rows may differ in length), what speaks for them, and what they were drawn from.

    `evidence` tells per row why the tokens were proposed: `MODEL_EVIDENCE`, or a match of that many tokens. `q` holds
    one distribution per row and step, [R * k, C] in row order with k the longest draft; None says that every draft is
    a certainty of its drafter (one-hot), as a lookup's are. `pending` int64 [R, k] holds on the device the tokens that
    `tokens` only marks as PENDING: a draft that a CUDA graph has made and nobody has read.
    """

    tokens: list[list[int]]
    evidence: list[int]
    q: Distribution | None = None
    pending: torch.Tensor | None = None

    def cut(self, lengths: Sequence[int]) -> Proposal:
        """Return the first `lengths[r]` tokens of each row."""
        tokens = [row[:n] for row, n in zip(self.tokens, lengths, strict=True)]
        q, k, shorter = self.q, max(map(len, self.tokens)), max(lengths)
        if q is not None and shorter < k:
            R, C = len(tokens), q.width
            ids, logp = (t.view(R, k, C)[:, :shorter].reshape(-1, C) for t in (q.ids, q.logp))
            q = Distribution(ids, logp)
        return replace(self, tokens=tokens, q=q)

    def settled(self) -> Proposal:
        """Return the proposal with all tokens read from the device."""
        if self.pending is None:
            return self
        drawn = self.pending.tolist()
        tokens = [
            [drawn[r][i] if token == PENDING else token for i, token in enumerate(row)]
            for r, row in enumerate(self.tokens)
        ]
        return replace(self, tokens=tokens, pending=None)


class Drafter(Protocol):
    """Proposes up to k tokens per row; keeps whatever state it needs in step with the batch's slots."""

    def start(self, slot: int, row: Row, source: int | None) -> Iterator[Ahead]:
        """A row that holds its prompt only begins in the slot; `source` is a slot of its request, if there is one.

        What takes long is done in pieces as the result is iterated over, as in `ModelRunner.start`.
        """

    def propose(self, rows: Sequence[Row], lengths: Sequence[int]) -> Proposal:
        """Return at most `lengths[r]` draft tokens for each row."""

    def observe(self, rows: Sequence[Row], accepted: Sequence[int]) -> None:
        """Learn how many draft tokens stood; the rows' tokens are already extended."""

    def fork(self, slot: int, row: Row) -> None:
        """Some samples of the slot's row part from it; `row` takes them on, in a new last slot, with the same text."""

    def drop(self, slot: int) -> None:
        """A row left the batch and the last one took its slot."""


class NoDrafter:
    """Proposes nothing: plain decoding, through the same loop."""

    def start(self, slot: int, row: Row, source: int | None) -> Iterator[Ahead]:
        """Nothing to prepare."""
        return iter(())

    def propose(self, rows: Sequence[Row], lengths: Sequence[int]) -> Proposal:
        """Return no tokens."""
        return Proposal([[] for _ in rows], [MODEL_EVIDENCE] * len(rows))

    def observe(self, rows: Sequence[Row], accepted: Sequence[int]) -> None:
        """Nothing to learn."""

    def fork(self, slot: int, row: Row) -> None:
        """Nothing to copy."""

    def drop(self, slot: int) -> None:
        """Nothing to move."""
