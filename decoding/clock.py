"""The wall clock of a request: what has passed, and whether another round still fits."""

from __future__ import annotations

import time
from collections import deque

# A round may cost more than its predecessors (a longer draft, a busy machine).
_MARGIN = 1.15
_REMEMBERED = 4


class Clock:
    """Starts when it is made; times are seconds since then.

    `expected_round_s` is what a round is believed to cost before this request has seen one of its own.
    """

    def __init__(self, budget_s: float | None, expected_round_s: float = 0.0) -> None:
        self._start = time.perf_counter()
        self.budget_s = budget_s
        self._rounds: deque[float] = deque([expected_round_s], maxlen=_REMEMBERED)

    @property
    def elapsed(self) -> float:
        """Seconds since the request was taken up."""
        return time.perf_counter() - self._start

    def observe_round(self, seconds: float) -> None:
        """Remember what a round cost."""
        self._rounds.append(seconds)

    @property
    def expected_round_s(self) -> float:
        """What the next round will cost: the dearest of the last few, with a margin."""
        return max(self._rounds) * _MARGIN

    def fits(self, seconds: float) -> bool:
        """Whether work of so many seconds would end within the budget."""
        return self.budget_s is None or self.elapsed + seconds <= self.budget_s
