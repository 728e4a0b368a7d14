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
class _ProcessSlots(Generic[S]):
    """The idle slots of one process and the thread that starts new ones; a fork must not share zygotes with its parent.

    bubblewrap dies with the thread that started it, so one thread that lives as long as the process starts them all.
    """

    process: int = field(default_factory=os.getpid)
    idle: list[S] = field(default_factory=list)
    starter: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "sandbox-starter"))


class Pool(Generic[S]):
    """Slots of one kind. Safe to use from many threads and after a fork."""

    def __init__(self, start: Callable[[], S]) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._slots: _ProcessSlots[S] = _ProcessSlots()

    @contextlib.contextmanager
    def borrow_slot(self) -> Iterator[S]:
        """A slot for one job. It is closed, and not used again, if the job raises. Raises what its start raises."""
        slots = self._get_process_slots()
        try:
            slot = slots.idle.pop()
        except IndexError:
            slot = slots.starter.submit(self._start).result()
        try:
            yield slot
        except BaseException:
            slot.close()
            raise
        self._get_process_slots().idle.append(slot)

    @property
    def idle(self) -> tuple[S, ...]:
        """The slots that wait for a job."""
        return tuple(self._get_process_slots().idle)

    def close(self) -> None:
        """End all idle slots; a later job starts new ones."""
        slots = self._get_process_slots()
        while True:
            try:
                slot = slots.idle.pop()
            except IndexError:  # asking whether one is left would be a race with `borrow_slot`
                return
            slot.close()

    def _get_process_slots(self) -> _ProcessSlots[S]:
        with self._lock:
            if self._slots.process != os.getpid():
                self._slots = _ProcessSlots()
            return self._slots
