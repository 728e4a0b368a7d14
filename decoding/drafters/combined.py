"""Lookup where its match is long, the draft model elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import torch

from decoding.acceptance.sampling import Distribution
from decoding.attention.runner import Ahead
from decoding.drafters.base import Proposal
from decoding.drafters.lookup import LookupDrafter
from decoding.drafters.model import ModelDrafter
from decoding.state.row import Row

LONG_MATCH = 4


class LookupThenModel:
    """A long match is nearly always right and costs nothing; only rows without one wait for the draft model."""

    def __init__(self, model: ModelDrafter, *, shared: bool) -> None:
        self._lookup = LookupDrafter(shared=shared, shortest_match=LONG_MATCH)
        self._model = model

    def start(self, slot: int, row: Row, source: int | None) -> Iterator[Ahead]:
        """Start the slot in both."""
        return chain(self._lookup.start(slot, row, source), self._model.start(slot, row, source))

    def propose(self, rows: Sequence[Row], lengths: Sequence[int]) -> Proposal:
        """Return each row's lookup draft, or the model's where the lookup found nothing."""
        looked = self._lookup.propose(rows, lengths)
        open_rows = [0 if tokens else k for tokens, k in zip(looked.tokens, lengths, strict=True)]
        drawn = self._model.propose(rows, open_rows)
        tokens = [a or b for a, b in zip(looked.tokens, drawn.tokens, strict=True)]
        q = drawn.q
        if q is not None:
            q = _with_certainties(q, looked.tokens, max(map(len, tokens)))
        return Proposal(tokens, looked.evidence, q, drawn.pending)

    def observe(self, rows: Sequence[Row], accepted: Sequence[int]) -> None:
        """Keep both in step."""
        self._lookup.observe(rows, accepted)
        self._model.observe(rows, accepted)

    def fork(self, slot: int, row: Row) -> None:
        """Copy the slot in both."""
        self._lookup.fork(slot, row)
        self._model.fork(slot, row)

    def drop(self, slot: int) -> None:
        """Move the last row in both."""
        self._lookup.drop(slot)
        self._model.drop(slot)


def _with_certainties(q: Distribution, found: list[list[int]], k: int) -> Distribution:
    """Return `q` [R * k', C] widened to k steps, one-hot in the rows where the lookup drafted and only the draft there.

    The draft model may have drawn for such a row as well (a graph draws for all); that law is not the draft's.
    """
    R = len(found)
    ids = q.ids.view(R, -1, q.width)
    logp = q.logp.view(R, -1, q.width)
    filler = -1 - torch.arange(q.width, device=ids.device)
    missing = k - ids.shape[1]
    if missing > 0:
        ids = torch.cat([ids, filler.expand(R, missing, -1)], dim=1)
        logp = torch.cat([logp, logp.new_full((R, missing, q.width), float("-inf"))], dim=1)
    for r, tokens in enumerate(found):
        if tokens:
            ids[r], logp[r] = filler, float("-inf")
            ids[r, : len(tokens), 0] = torch.tensor(tokens, device=ids.device)
            logp[r, : len(tokens), 0] = 0.0
    return Distribution(ids.flatten(0, 1), logp.flatten(0, 1))
