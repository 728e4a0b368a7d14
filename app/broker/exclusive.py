"""A job that needs the machine alone, such as a load test: the worker of `bassline serve` does it between two messages.

While it waits or runs, no completion is accepted; runs wait and go on afterwards.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from app.errors import ConflictError


class ExclusiveJobs:
    """At most one job at a time, in a process that decodes and serves pages. `what` names it, empty without one."""

    def __init__(self) -> None:
        self.what = ""
        self._lock = threading.Lock()
        self._waiting: Callable[[], None] | None = None

    def submit(self, what: str, job: Callable[[], None]) -> None:
        """Has the worker do the job as soon as it is free. Raises ConflictError while another one waits or runs."""
        with self._lock:
            if self.what:
                raise ConflictError(f"{self.what} has this machine to itself: wait until it ends, or cancel it")
            self.what, self._waiting = what, job

    def withdraw(self) -> bool:
        """Forgets the job if the worker has not begun it. Returns whether it did."""
        with self._lock:
            if self._waiting is None:
                return False
            self.what, self._waiting = "", None
            return True

    def work(self) -> None:
        """Does the job that waits, if any. Called by the worker's thread alone."""
        with self._lock:
            job, self._waiting = self._waiting, None
        if job is None:
            return
        try:
            job()
        finally:
            self.what = ""
