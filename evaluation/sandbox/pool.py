"""Idle slots that are used again, and the thread that starts them."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    """A slot: one or more zygotes."""

    def close(self) -> None:
        """End them."""


S = TypeVar("S", bound=Closable)


@dataclass
class _Idle(Generic[S]):
    """Idle slots of one process; a fork must not share zygotes with its parent."""

    process: int = field(default_factory=os.getpid)
    slots: list[S] = field(default_factory=list)
    # bubblewrap dies with the thread that started it, so one thread that lives as long as the process starts them all.
    starter: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "sandbox-starter"))


class Pool(Generic[S]):
    """Slots of one kind. Safe to use from many threads and after a fork."""

    def __init__(self, start: Callable[[], S]) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._idle: _Idle[S] = _Idle()

    @contextlib.contextmanager
    def slot(self) -> Iterator[S]:
        """A slot for one job. It is closed, and not used again, if the job raises. Raises what its start raises."""
        idle = self._current()
        try:
            slot = idle.slots.pop()
        except IndexError:
            slot = idle.starter.submit(self._start).result()
        try:
            yield slot
        except BaseException:
            slot.close()
            raise
        self._current().slots.append(slot)

    @property
    def idle(self) -> tuple[S, ...]:
        """The slots that wait for a job."""
        return tuple(self._current().slots)

    def close(self) -> None:
        """End all idle slots; a later job starts new ones."""
        idle = self._current()
        while idle.slots:
            idle.slots.pop().close()

    def _current(self) -> _Idle[S]:
        with self._lock:
            if self._idle.process != os.getpid():
                self._idle = _Idle()
            return self._idle
