"""The draft tokens of a round, before the target has seen them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from decoding.acceptance.distribution import Distribution

PENDING = -2
"""Marks a draft token that is still on the device."""

MODEL_EVIDENCE = 0
"""The evidence behind a draft model's tokens; a lookup's is the length of its match, from 1."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Draft tokens per row (rows may differ in length), the evidence for them, and the distributions they were drawn
    from.
    """

    tokens: list[list[int]]
    evidence: list[int]  # per row why the tokens were proposed: `MODEL_EVIDENCE`, or the length of a match
    # one distribution per row and step, [R * k, C] in row order with k the longest draft; None: the drafter is certain
    # of every token (one-hot), as a lookup is
    q: Distribution | None = None
    # int64 [R, k] on the device: the tokens that `tokens` only marks as PENDING, from a draft that a CUDA graph has
    # made and the host has not read
    pending: torch.Tensor | None = None

    @property
    def n_steps(self) -> int:
        """The steps that a model took to draw its tokens."""
        drawn = (row for row, why in zip(self.tokens, self.evidence, strict=True) if why == MODEL_EVIDENCE)
        return max(map(len, drawn), default=0)

    def cut(self, lengths: Sequence[int]) -> Proposal:
        """Return the first `lengths[r]` tokens of each row."""
        tokens = [row[:n] for row, n in zip(self.tokens, lengths, strict=True)]
        q, k, shorter = self.q, max(map(len, self.tokens)), max(lengths)
        if q is not None and shorter < k:
            R, C = len(tokens), q.width
            ids, logp = (t.view(R, k, C)[:, :shorter].reshape(-1, C) for t in (q.ids, q.logp))
            q = Distribution(ids, logp)
        return replace(self, tokens=tokens, q=q)

    def materialized(self) -> Proposal:
        """Return the proposal with all tokens read from the device, for a caller that needs their ids."""
        if self.pending is None:
            return self
        drawn = self.pending.tolist()
        tokens = [
            [drawn[r][i] if token == PENDING else token for i, token in enumerate(row)]
            for r, row in enumerate(self.tokens)
        ]
        return replace(self, tokens=tokens, pending=None)
