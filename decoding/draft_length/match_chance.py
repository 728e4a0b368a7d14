"""How likely a looked-up token is to be accepted, by the match behind it."""

from __future__ import annotations

import math

from decoding.state.proposal import Match

# Fitted to 49,000 looked-up tokens of qwen2.5-coder-0.5b and smollm2-135m, which differ little.
_START = (-0.5, 0.8, 2.7)
# How far one token moves the weights: they follow another model or another kind of text within some hundred tokens.
_RATE = 0.02
# A longer match is not more certain.
_LONGEST = 64


class MatchChance:
    """A logistic regression on the logarithm of the match's length and on the share of its continuations.

    Learned from each token that the target has compared. Classes of lengths and shares with a rate each learn more
    slowly, because rare ones teach the others nothing, and choose worse draft lengths.
    """

    def __init__(self) -> None:
        self._weights = _START

    def __call__(self, match: Match) -> float:
        """Return the probability that a token is accepted if those before it are."""
        bias, by_length, by_share = self._weights
        score = bias + by_length * math.log2(min(match.length, _LONGEST)) + by_share * (match.share - 1)
        return 1 / (1 + math.exp(-score))

    def observe(self, match: Match, *, accepted: bool) -> None:
        """Take a step of gradient descent for a token that was accepted or not."""
        step = _RATE * (accepted - self(match))
        bias, by_length, by_share = self._weights
        length = math.log2(min(match.length, _LONGEST))
        self._weights = bias + step, by_length + step * length, by_share + step * (match.share - 1)
