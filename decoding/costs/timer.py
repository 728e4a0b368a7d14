"""Predicts the seconds of the next unit of work from the last few."""

from __future__ import annotations

import time
from collections import deque

# Work may cost more than what came before it (a longer draft, a busy machine).
_MARGIN = 1.15
_REMEMBERED = 4
# How much faster the machine may have become since the batch before.
_SPEEDUP = 4.0
# How long a measurement stays valid: the load of a machine changes within seconds.
_FRESH_S = 1.0


class CostEstimator:
    """Predicts the seconds of the next unit of work (a round, a token of a prefill) from the last few of this batch.

    What earlier batches measured is old, and of batches of other sizes: until this one has measured a unit, the
    estimate is a quarter of the cheapest unit of the batch before, because the machine may be faster now.
    """

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque(maxlen=_REMEMBERED)  # (seconds, when)
        self._cheapest_s = 0.0

    def restart(self) -> None:
        """Begin a batch: earlier measurements only bound the first estimate from now on."""
        self._seen.clear()

    def observe(self, seconds: float) -> None:
        """Record the cost of a unit."""
        self._cheapest_s = min(self._cheapest_s, seconds) if self._seen else seconds
        self._seen.append((seconds, time.perf_counter()))

    @property
    def expected_s(self) -> float:
        """Seconds that the next unit will take: the slowest of the last few, with a margin."""
        return max(self._seen)[0] * _MARGIN if self._seen else self._cheapest_s / _SPEEDUP

    @property
    def known_s(self) -> float:
        """Seconds that a unit has taken: as `expected_s`, but as long as before until this batch has measured one."""
        return self.expected_s if self._seen else self._cheapest_s

    @property
    def least_s(self) -> float:
        """Seconds that a unit surely takes: the fastest of the last few, 0 if none of them was measured just now.

        Work that is refused is not measured, so an old measurement must not refuse any.
        """
        is_fresh = bool(self._seen) and time.perf_counter() - self._seen[-1][1] <= _FRESH_S
        return min(self._seen)[0] if is_fresh else 0.0
