"""Values that are expensive to compute, kept in memory until their inputs change."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import lru_cache
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
        self._bookkeeping = threading.Lock()
        self._get_slot = lru_cache(size)(lambda _key: _Slot[V]())

    def get(
        self, key: K, version: object, compute: Callable[[], V], *, still_good: Callable[[V], bool] = lambda _: False
    ) -> V:
        """The value of `key` at `version`, from `compute` if it is not in memory. Exceptions of `compute` propagate.

        A value of another version is returned too if it is `still_good`.
        """
        with self._bookkeeping:
            slot = self._get_slot(key)
        with slot.computing:
            if slot.kept is None or (slot.kept[0] != version and not still_good(slot.kept[1])):
                slot.kept = None  # so that two values of one key never take memory at once
                slot.kept = (version, compute())
            return slot.kept[1]
