"""Replaces the locks of `multiprocessing` by locks between threads.

The originals are named semaphores of the kernel: files in a folder that all processes share, which is denied here. No
second process can be started either, so locks between threads suffice for a right program.
"""

from __future__ import annotations

import sys
import types
from typing import Any

_RECURSIVE = 0


class SemLock:
    """Replaces `_multiprocessing.SemLock`, on which locks, semaphores, queues and thread pools are built."""

    SEM_VALUE_MAX = 2**31 - 1

    def __init__(self, kind: int, value: int, maxvalue: int, name: str, unlink: bool) -> None:
        import threading  # noqa: PLC0415  (its hooks would run at every fork of the zygote)

        self.kind, self.maxvalue, self.name, self.handle = kind, maxvalue, None, 0
        self._free = threading.Semaphore(value)
        self._me = threading.get_ident
        self._value, self._taken, self._owner = value, 0, -1

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Return whether it was acquired; `block` and `timeout` as in multiprocessing."""
        if self.kind != _RECURSIVE or not self._is_mine():
            wait = max(0.0, timeout) if block and timeout is not None else None
            if not self._free.acquire(block, wait):
                return False
            self._value -= 1
        self._owner = self._me()
        self._taken += 1
        return True

    def release(self) -> None:
        """Release it. Raises AssertionError and ValueError where the original does."""
        if self.kind == _RECURSIVE:
            if not self._is_mine():
                raise AssertionError("attempt to release recursive lock not owned by thread")
            if self._taken > 1:
                self._taken -= 1
                return
        elif self._value >= self.maxvalue:
            raise ValueError("semaphore or lock released too many times")
        self._taken -= 1
        self._value += 1
        self._free.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def _count(self) -> int:
        return self._taken

    def _is_mine(self) -> bool:
        return self._taken > 0 and self._owner == self._me()

    def _get_value(self) -> int:
        return self._value

    def _is_zero(self) -> bool:
        return self._value == 0

    def _after_fork(self) -> None:
        self._taken = 0


def install() -> None:
    """Make `multiprocessing` import these instead of the kernel's."""
    module: Any = types.ModuleType("_multiprocessing")
    module.SemLock, module.flags = SemLock, {}
    module.sem_unlink = lambda _name: None
    sys.modules["_multiprocessing"] = module
