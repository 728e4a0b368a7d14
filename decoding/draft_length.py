"""How many tokens to draft in the next round.

A policy knows finished rounds only, which keeps the decoding lossless.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from decoding.config import MAX_DRAFT_LENGTH, parse_draft_length


class DraftLength(Protocol):
    """Chooses the draft length k of each round."""

    def next(self, n_rows: int) -> int:
        """Return k for a round of `n_rows` rows."""

    def observe(self, accepted: Sequence[int]) -> None:
        """Take note of the draft tokens that each row accepted in the round just done."""


class FixedLength:
    """The same k in every round."""

    def __init__(self, k: int) -> None:
        self.k = k

    def next(self, n_rows: int) -> int:
        """Return k."""
        return self.k

    def observe(self, accepted: Sequence[int]) -> None:
        """Nothing to learn."""


class BassLength:
    """Algorithm 1 of BASS (arXiv 2404.15778): grow when some row took its whole draft, else shrink.

    One length for the whole batch. `l0` = 7, `STEP` = 2, `DIVISOR` = 10 and `LIMIT` = 32 are the paper's constants.
    """

    START, STEP, DIVISOR, LIMIT = 7, 2, 10, MAX_DRAFT_LENGTH

    def __init__(self) -> None:
        self.length = self.START
        self.shrank = 0

    def next(self, n_rows: int) -> int:
        """Return the current length."""
        return self.length

    def observe(self, accepted: Sequence[int]) -> None:
        """Apply the rule to the row that accepted most."""
        best = max(accepted)
        if best >= self.length:
            self.length = min(self.length + self.STEP, self.LIMIT)
            self.shrank = 0
        else:
            shorter = self.length - math.ceil(self.length / self.DIVISOR) - self.shrank
            self.length = max(1, best, shorter)
            self.shrank = 1


def make_policy(text: str) -> DraftLength:
    """Return the policy a `--draft-length` value names, in its starting state."""
    k = parse_draft_length(text)
    return BassLength() if k is None else FixedLength(k)
