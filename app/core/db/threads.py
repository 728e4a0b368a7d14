"""Threads that live as long as their process or their job: no fault ends one."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from app.core.db.database import log_failure


class RepeatingThread:
    """A daemon thread that repeats an action until it is stopped.

    `action` returns the seconds until it is called again, None to end the thread. An exception is logged, and the
    action is called again after `retry_s`, so that its effect is only late.
    """

    def __init__(self, name: str, action: Callable[[], float | None], *, first_s: float = 0.0, retry_s: float) -> None:
        self._action, self._first_s, self._retry_s = action, first_s, retry_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name=name, daemon=True)

    def start(self) -> None:
        """Calls the action for the first time after `first_s` seconds."""
        self._thread.start()

    def stop(self, timeout_s: float | None = None) -> None:
        """Ends the thread once its action returns, and waits for that, at most `timeout_s` seconds."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def _repeat(self) -> None:
        wait_s: float | None = self._first_s
        while wait_s is not None and not self._over.wait(wait_s):
            try:
                wait_s = self._action()
            except Exception as error:
                wait_s = self._retry_s
                with contextlib.suppress(Exception):  # even the log's disk may be full
                    log_failure("a thread goes on after a fault", error, thread=self._thread.name)
