"""Predicts the time of a round by its shape: the measured verify, a correction fitted to past rounds, draft steps."""

from __future__ import annotations

import numpy as np

from decoding.costs.verify import VerifyCost

# Each round multiplies the weight of earlier ones by this, which halves it in 140 rounds: contexts grow, and the load
# of the machine changes.
_DECAY = 0.995
# Ridge regularization, in rounds: the first few rounds must not determine the coefficients alone. It does not decay:
# rounds of one shape, as in plain decoding, cannot tell the coefficients apart, however many there are.
_RIDGE = 0.1
# The weight of the last draft in the mean of a draft step.
_STEP_WEIGHT = 0.1
# The correction counts up to this share of the verify. A longer round was interrupted by another program.
_MAX_EXTRA = 1.0


class RoundCost:
    """Predicts the seconds after drafting, for R rows with N tokens in all and at most T each.

    `VerifyCost` is measured on one row. A round takes further time per row, and per cell of the R x T rectangle to
    which attention pads a ragged batch, so that one long draft makes every row slower, unless it is so much longer that
    it has a call of its own (`memory/layout.py`). These coefficients are fitted to past rounds by least squares with
    exponentially decaying weights.

    `draft_step_s` are the seconds of one step of a draft model, or of one pass of a head that proposes a whole block;
    None before the first.
    """

    def __init__(self, verify: VerifyCost) -> None:
        self.verify = verify
        self._normal = np.zeros((3, 3))
        self._moment = np.zeros(3)
        self._coefficients = np.zeros(3)
        self.draft_step_s: float | None = None

    def __call__(self, n_rows: int, n_tokens: int, longest: int) -> float:
        """Return the expected seconds for `n_tokens` packed tokens of `n_rows` rows, `longest` in the longest."""
        fixed, per_row, per_cell = self._coefficients
        seconds = self.verify(n_tokens)
        return max(seconds + float(fixed + n_rows * (per_row + longest * per_cell)), 0.5 * seconds)

    def observe(self, n_rows: int, n_tokens: int, longest: int, seconds: float) -> None:
        """Refit to a round that took `seconds` after its draft."""
        verify = self.verify(n_tokens)
        extra = min(seconds - verify, _MAX_EXTRA * verify)
        features = np.array([1.0, n_rows, n_rows * longest])
        self._normal = _DECAY * self._normal + np.outer(features, features)
        self._moment = _DECAY * self._moment + features * extra
        solution = np.linalg.solve(self._normal + np.eye(3) * _RIDGE, self._moment)
        self._coefficients = np.array([solution[0], *np.maximum(solution[1:], 0.0)])

    def observe_draft(self, n_steps: int, seconds: float) -> None:
        """Learn from a draft that took `seconds` for `n_steps` steps."""
        if n_steps:
            step = seconds / n_steps
            old = step if self.draft_step_s is None else self.draft_step_s
            self.draft_step_s = (1 - _STEP_WEIGHT) * old + _STEP_WEIGHT * step
