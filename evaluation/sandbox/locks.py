"""A lock that many jobs hold together, or one job alone."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class SharedExclusiveLock:
    """A readers-writer lock between threads. A waiting exclusive holder keeps new shared holders out."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._n_shared = 0
        self._n_waiting_exclusive = 0
        self._held_exclusively = False

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Hold the lock beside other shared holders; wait while an exclusive holder has it or waits for it."""
        with self._changed:
            self._changed.wait_for(lambda: not self._held_exclusively and not self._n_waiting_exclusive)
            self._n_shared += 1
        try:
            yield
        finally:
            with self._changed:
                self._n_shared -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock alone; wait until every other holder has released it."""
        with self._changed:
            self._n_waiting_exclusive += 1
            self._changed.wait_for(lambda: not self._held_exclusively and not self._n_shared)
            self._n_waiting_exclusive -= 1
            self._held_exclusively = True
        try:
            yield
        finally:
            with self._changed:
                self._held_exclusively = False
                self._changed.notify_all()
