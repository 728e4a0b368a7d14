"""Lookup where it is the better draft, another drafter elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from decoding.acceptance.distribution import Distribution, make_empty_distribution
from decoding.attention.prefill import Prefill
from decoding.drafters.base import Drafter
from decoding.drafters.lookup import LookupDrafter
from decoding.state.proposal import Proposal
from decoding.state.row import Row
from kernels.upload import upload


class RowSelector(Protocol):
    """Decides which rows are worth a draft that costs time (`DraftLengthPolicy.choose_model_lengths`)."""

    def __call__(self, looked_up: Proposal, lengths: Sequence[int], n_samples: Sequence[int]) -> list[int]:
        """Return how many tokens to draw for each row instead of the looked-up ones; 0 keeps the lookup."""


class LookupFirst(Drafter):
    """Looks all rows up, which costs nothing, and asks the other drafter for the rows that `choice` names.

    A long match is nearly always right; a draft model costs a forward per token, a trained head a small part of one.
    """

    def __init__(self, lookup: LookupDrafter, other: Drafter, choice: RowSelector) -> None:
        self._lookup = lookup
        self._other = other
        self._choice = choice
        self.draws_tokens = other.draws_tokens

    def start(self, row_index: int, row: Row, source: int | None) -> Prefill:
        """Start the row in both."""
        return self._lookup.start(row_index, row, source).then(self._other.start(row_index, row, source))

    def propose(self, rows: Sequence[Row], lengths: Sequence[int]) -> Proposal:
        """Return each row's lookup draft, or the other drafter's where that was chosen."""
        looked_up = self._lookup.propose(rows, lengths)
        drawn = self._choice(looked_up, lengths, [len(row.samples) for row in rows])
        other = self._other.propose(rows, drawn)
        # The other drafter may have nothing for a row that it was asked for.
        kept = [[] if own else tokens for own, tokens in zip(other.tokens, looked_up.tokens, strict=True)]
        tokens = [a or b for a, b in zip(kept, other.tokens, strict=True)]
        evidence = [
            match if tokens else own
            for tokens, match, own in zip(kept, looked_up.evidence, other.evidence, strict=True)
        ]
        q = other.q
        if q is not None:
            q = _add_looked_up(q, kept, max(map(len, tokens)))
        confidence = other.confidence
        if confidence is not None:
            confidence = [() if looked else own for looked, own in zip(kept, confidence, strict=True)]
        return Proposal(tokens, evidence, q, other.device_tokens, confidence, other.n_steps)

    def observe(self, rows: Sequence[Row], accepted: Sequence[int]) -> None:
        """Keep both in step."""
        self._lookup.observe(rows, accepted)
        self._other.observe(rows, accepted)

    def fork(self, row_index: int, row: Row) -> None:
        """Copy the row in both."""
        self._lookup.fork(row_index, row)
        self._other.fork(row_index, row)

    def drop(self, row_index: int) -> None:
        """Move the last row in both."""
        self._lookup.drop(row_index)
        self._other.drop(row_index)

    def set_aside(self, row_index: int) -> None:
        """Set the row aside in both."""
        self._lookup.set_aside(row_index)
        self._other.set_aside(row_index)

    def put_back(self) -> None:
        """Append that row in both."""
        self._lookup.put_back()
        self._other.put_back()


def _add_looked_up(q: Distribution, looked_up: list[list[int]], k: int) -> Distribution:
    """Return `q` [R * k', C] widened to k steps, one-hot on the draft in the rows that the lookup drafted.

    The draft model may have drawn for such a row as well (a graph draws for all); that distribution is not the draft's.
    """
    R, C = len(looked_up), q.width
    wide = make_empty_distribution(R * k, C, q.ids.device)
    ids, logp = wide.ids.view(R, k, C), wide.logp.view(R, k, C)
    padding = ids[0, 0].clone()
    steps = len(q.ids) // R
    ids[:, :steps], logp[:, :steps] = q.ids.view(R, steps, C), q.logp.view(R, steps, C)
    for r, tokens in enumerate(looked_up):
        if tokens:
            ids[r], logp[r] = padding, float("-inf")
            ids[r, : len(tokens), 0] = upload(tokens, ids.device)
            logp[r, : len(tokens), 0] = 0.0
    return wide
