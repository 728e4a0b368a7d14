"""The wall clock of a request, and what the engine has learnt of the cost of its rounds."""

from __future__ import annotations

import time
from collections import deque

# A round may cost more than its predecessors (a longer draft, a busy machine).
_MARGIN = 1.15
_REMEMBERED = 4


class Clock:
    """Starts when it is made; times are seconds since then."""

    def __init__(self, budget_s: float | None) -> None:
        self._start = time.perf_counter()
        self.budget_s = budget_s

    @property
    def elapsed(self) -> float:
        """Seconds since the request was taken up."""
        return time.perf_counter() - self._start

    def fits(self, seconds: float) -> bool:
        """Whether work of so many seconds would end within the budget."""
        return self.budget_s is None or self.elapsed + seconds <= self.budget_s


class RoundTimer:
    """Predicts the next round from the last few, over all requests of an engine."""

    def __init__(self) -> None:
        self._rounds: deque[float] = deque([0.0], maxlen=_REMEMBERED)

    def observe(self, seconds: float) -> None:
        """Remember what a round cost."""
        self._rounds.append(seconds)

    @property
    def expected_s(self) -> float:
        """What the next round will cost: the dearest of the last few, with a margin."""
        return max(self._rounds) * _MARGIN

    def doubt(self) -> None:
        """Believe half of it: one bad measurement must not keep every later request from beginning."""
        self._rounds = deque((seconds / 2 for seconds in self._rounds), maxlen=_REMEMBERED)
