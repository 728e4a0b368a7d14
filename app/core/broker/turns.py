"""Whose turn it is: a message says that work waits, and whatever waits takes turns at a worker (docs/scheduling.md)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

# For so long, work whose engine is in memory goes first, and a batch takes further jobs: loading an engine costs
# seconds.
TURN_S = 60.0
MAX_REMEMBERED = 1000  # pieces of work, before what no longer waits is forgotten


class SchedulableWork(Protocol):
    """What waits for a worker, and how many of its jobs workers have in progress."""

    @property
    def key(self) -> uuid.UUID:
        """What takes a turn as one."""

    @property
    def jobs_in_progress(self) -> int:
        """At any worker."""


W = TypeVar("W", bound=SchedulableWork)


class TurnScheduler:
    """When one worker last served what, for one step of the jobs.

    Next is what has the fewest jobs in progress anywhere; among those, what this worker has not served for the longest
    time. For TURN_S after an engine was loaded, work whose engine is in memory is preferred.
    """

    def __init__(self) -> None:
        self._served: dict[uuid.UUID, float] = {}
        self._loaded_at = 0.0

    def choose(self, waiting: Sequence[W], is_loaded: Callable[[W], bool]) -> W:
        """The next of `waiting`; `is_loaded` says whether its engine is in memory."""
        now, candidates = time.monotonic(), waiting
        if now - self._loaded_at < TURN_S:
            candidates = list(filter(is_loaded, waiting)) or waiting
        chosen = min(candidates, key=lambda w: (w.jobs_in_progress, self._served.get(w.key, 0.0), w.key))
        if len(self._served) >= MAX_REMEMBERED:
            self._served = {w.key: self._served[w.key] for w in waiting if w.key in self._served}
        self._served[chosen.key] = now
        if not is_loaded(chosen):
            self._loaded_at = now
        return chosen
