"""Limits what holds threads of a web process, such as live views: the total, and the share of each caller."""

from __future__ import annotations

import threading
from collections import Counter

SHARES = 3  # one caller holds at most one place in so many


class CallerPool:
    """`size` places. One caller gets at most a third of them, and at least one."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._held: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.share = max(size // SHARES, 1)

    def acquire(self, caller: str) -> bool:
        """Takes a place for the caller; False if the caller's share or all places are taken."""
        with self._lock:
            if self._held[caller] >= self.share or self._held.total() >= self._size:
                return False
            self._held[caller] += 1
            return True

    def release(self, caller: str) -> None:
        """Gives one of the caller's places back."""
        with self._lock:
            self._held[caller] -= 1
            self._held += Counter()  # forgets callers without a place
