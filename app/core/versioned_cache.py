"""Values that are expensive to compute, kept in memory until their inputs change."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True, eq=False)
class _Slot(Generic[V]):
    """The (version, value) of one key, None before the first; its lock is held while the value is computed."""

    computing: threading.Lock = field(default_factory=threading.Lock)
    kept: tuple[object, V] | None = None


class VersionedCache(Generic[K, V]):
    """The values of the `size` keys used last, each with the version it was computed for. Threads may share it.

    Threads that ask for one key wait for a single computation. Those that ask for other keys do not.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._bookkeeping = threading.Lock()
        self._slots: dict[K, _Slot[V]] = {}  # least recently used first

    def get(
        self, key: K, version: object, compute: Callable[[], V], *, still_good: Callable[[V], bool] = lambda _: False
    ) -> V:
        """The value of `key` at `version`, from `compute` if it is not in memory. Exceptions of `compute` propagate.

        A value of another version is returned too if it is `still_good`.
        """
        slot = self._mark_used(key)
        with slot.computing:
            if slot.kept is None or (slot.kept[0] != version and not still_good(slot.kept[1])):
                slot.kept = None  # so that two values of one key never take memory at once
                slot.kept = (version, compute())
            return slot.kept[1]

    def _mark_used(self, key: K) -> _Slot[V]:
        """The slot of the key, now the last used."""
        with self._bookkeeping:
            found = self._slots.pop(key, None)
            slot = self._slots[key] = _Slot() if found is None else found
            while len(self._slots) > self._size:
                del self._slots[next(iter(self._slots))]
            return slot
