"""Many jobs together, or one alone."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class Turnstile:
    """Lets jobs run together, and a job that must not be disturbed run alone; those who wait to be alone go first."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._waiting_alone = 0
        self._closed = False

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Enter beside others; wait while somebody is alone or wants to be."""
        with self._changed:
            self._changed.wait_for(lambda: not self._closed and not self._waiting_alone)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Enter when everybody has left; keep others out until done."""
        with self._changed:
            self._waiting_alone += 1
            self._changed.wait_for(lambda: not self._closed and not self._inside)
            self._waiting_alone -= 1
            self._closed = True
        try:
            yield
        finally:
            with self._changed:
                self._closed = False
                self._changed.notify_all()
