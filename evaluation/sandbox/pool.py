"""Idle slots that are used again, and the thread that starts them."""

from __future__ import annotations

import contextlib
import contextvars
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    """A slot: one or more zygotes."""

    def close(self) -> None:
        """End them."""


S = TypeVar("S", bound=Closable)


class Pool(Generic[S]):
    """Slots of one kind. Safe to use from many threads; a forked process shares no slot with its parent."""

    def __init__(self, start: Callable[[], S]) -> None:
        self._start = start
        self._reset()
        reset = weakref.WeakMethod(self._reset)
        os.register_at_fork(after_in_child=lambda: (method := reset()) and method())

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self.idle: list[S] | None = []  # None: closed for good, so each slot ends when it is given back
        # bubblewrap dies with the thread that started it, so one that lives as long as the process starts them all.
        self._starter = ThreadPoolExecutor(1, "sandbox-starter")

    @contextlib.contextmanager
    def borrow_slot(self) -> Iterator[S]:
        """A slot for one job. It is closed, and not used again, if the job raises or the pool was closed meanwhile.

        Raises what its start raises.
        """
        with self._lock:
            idle = self.idle
            slot = idle.pop() if idle else None
        if slot is None:
            slot = self._starter.submit(contextvars.copy_context().run, self._start).result()
        try:
            yield slot
        except BaseException:
            slot.close()
            raise
        with self._lock:
            if idle is not None and idle is self.idle:
                idle.append(slot)
                return
        slot.close()

    def close(self, *, for_good: bool = False) -> None:
        """End idle slots now, and the others when they are given back. A later job starts new ones, which are kept
        unless the pool is closed `for_good`."""
        with self._lock:
            idle, self.idle = self.idle, None if for_good else []
        for slot in idle or ():
            slot.close()
