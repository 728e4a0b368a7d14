"""The draft tokens of a round, before the target has seen them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from decoding.acceptance.distribution import Distribution

ON_DEVICE = -2
"""Marks a draft token that is still on the device."""


class Match(NamedTuple):
    """Why a lookup proposes a token: the length of the text that it continues, and the share of that text's
    continuations that begin with the token."""

    length: int
    share: float


Evidence = Sequence[Match]
MODEL_EVIDENCE: Evidence = ()
"""The evidence for a draft model's tokens; a lookup's has a match for each token."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Draft tokens per row (rows may differ in length), the evidence for them, and the distributions they were drawn
    from.
    """

    tokens: list[list[int]]
    evidence: list[Evidence]  # per row why the tokens were proposed
    # one distribution per row and step, [R * k, C] in row order with k the longest draft; None: the drafter is certain
    # of every token (one-hot), as a lookup is
    q: Distribution | None = None
    # int64 [R, k] on the device: the tokens that `tokens` only marks as ON_DEVICE, from a draft that a CUDA graph has
    # made and the host has not read
    device_tokens: torch.Tensor | None = None
    # per row the chance of each token to be accepted if those before it are, as the head predicted before it drew any:
    # what was drawn must not decide what is verified. None, or an empty row, where nothing predicts it
    confidence: Sequence[Sequence[float]] | None = None
    # what a model took to draw its tokens: a step for each of them, or one for a whole block
    n_steps: int = 0

    def truncate(self, lengths: Sequence[int]) -> Proposal:
        """Return the first `lengths[r]` tokens of each row."""
        tokens = [row[:n] for row, n in zip(self.tokens, lengths, strict=True)]
        q, k, shorter = self.q, max(map(len, self.tokens)), max(lengths)
        if q is not None and shorter < k:
            R, C = len(tokens), q.width
            ids, logp = (t.view(R, k, C)[:, :shorter].reshape(-1, C) for t in (q.ids, q.logp))
            q = Distribution(ids, logp)
        return replace(self, tokens=tokens, q=q)

    def read_device_tokens(self) -> Proposal:
        """Return the proposal with all tokens read from the device, for a caller that needs their ids."""
        if self.device_tokens is None:
            return self
        drawn = self.device_tokens.tolist()
        tokens = [
            [drawn[r][i] if token == ON_DEVICE else token for i, token in enumerate(row)]
            for r, row in enumerate(self.tokens)
        ]
        return replace(self, tokens=tokens, device_tokens=None)
