"""The wall clock of a request."""

from __future__ import annotations

import math
import time


class Clock:
    """Starts when it is made, with `waited_s` seconds already gone; times are in seconds."""

    def __init__(self, budget_s: float | None, waited_s: float = 0.0) -> None:
        self._start = time.perf_counter() - waited_s
        self.budget_s = budget_s

    @property
    def elapsed_s(self) -> float:
        """Seconds since the request was accepted."""
        return time.perf_counter() - self._start

    @property
    def left_s(self) -> float:
        """Seconds until the deadline; infinity without one."""
        return math.inf if self.budget_s is None else self.budget_s - self.elapsed_s

    def fits(self, seconds: float) -> bool:
        """Return whether work of `seconds` would end within the budget."""
        return seconds <= self.left_s
