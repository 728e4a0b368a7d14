"""What a round costs: the measured verify, and what past rounds took beyond it."""

from __future__ import annotations

import numpy as np

from decoding.draft_length.verify_cost import VerifyCost

# The record halves about every 140 rounds: contexts grow, and other programs come and go.
_FADE = 0.995
# A ridge worth a small part of one round, so that the first rounds do not leap to conclusions.
_RIDGE = 0.1
# A round that took longer than this share beyond its verify was interrupted by something else.
_MOST_BEYOND = 1.0


class RoundCost:
    """Seconds of a round after its draft, for R rows that bring N tokens in all and T at most each.

    A verify is measured on one row (`VerifyCost`). Beyond it a round takes time for each row, and for each place of
    the R x T rectangle to which attention pads a ragged batch: one long draft makes all rows pay. These prices are
    fitted to the rounds seen, by least squares with fading weights.
    """

    def __init__(self, verify: VerifyCost) -> None:
        self.verify = verify
        self._normal = np.eye(3) * _RIDGE
        self._moment = np.zeros(3)
        self._prices = np.zeros(3)

    def __call__(self, n_rows: int, n_tokens: int, longest: int) -> float:
        """Return the expected seconds for `n_tokens` packed tokens of `n_rows` rows, the longest of `longest`."""
        fixed, per_row, per_place = self._prices
        seconds = self.verify(n_tokens)
        return max(seconds + float(fixed + n_rows * (per_row + longest * per_place)), 0.5 * seconds)

    def observe(self, n_rows: int, n_tokens: int, longest: int, seconds: float) -> None:
        """Take note of a round that took `seconds` after its draft."""
        verify = self.verify(n_tokens)
        beyond = min(seconds - verify, _MOST_BEYOND * verify)
        places = np.array([1.0, n_rows, n_rows * longest])
        self._normal = _FADE * self._normal + np.outer(places, places)
        self._moment = _FADE * self._moment + places * beyond
        prices = np.linalg.solve(self._normal, self._moment)
        self._prices = np.array([prices[0], *np.maximum(prices[1:], 0.0)])
