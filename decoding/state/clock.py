"""The wall clock of a request, and what the engine has learnt of the cost of its work."""

from __future__ import annotations

import time
from collections import deque

# Work may cost more than what came before it (a longer draft, a busy machine).
_MARGIN = 1.15
_REMEMBERED = 4
# How much faster the machine may have become since another batch was decoded.
_DOUBT = 4.0


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


class CostTimer:
    """Predicts the seconds of the next unit of work (a round, a token of a prefill) from the last few of this batch.

    Until the batch has measured one, a quarter of the cheapest unit of the batch before is expected: the machine may be
    faster now, and a request refused on an old belief would come back empty. If the belief is right, the first
    unit ends at most its own length after the deadline.
    """

    def __init__(self) -> None:
        self._seen: deque[float] = deque(maxlen=_REMEMBERED)
        self._believed_s = 0.0

    def restart(self) -> None:
        """Begin a batch: what was measured so far is a belief from now on."""
        self._seen.clear()

    def observe(self, seconds: float) -> None:
        """Remember what a unit cost."""
        self._believed_s = min(self._believed_s, seconds) if self._seen else seconds
        self._seen.append(seconds)

    @property
    def expected_s(self) -> float:
        """What the next unit will cost: the dearest of the last few, with a margin."""
        return max(self._seen) * _MARGIN if self._seen else self._believed_s / _DOUBT

    @property
    def least_s(self) -> float:
        """What a unit costs at least: the cheapest of the last few."""
        return min(self._seen, default=self._believed_s / _DOUBT)

    def halve(self) -> None:
        """Believe half: what is thought too dear to begin is never measured again otherwise."""
        self._believed_s /= 2
        self._seen = deque((seconds / 2 for seconds in self._seen), maxlen=_REMEMBERED)
