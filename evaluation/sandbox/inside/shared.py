"""The mutable objects that guest and checker both know, by number.

A value crosses as a copy. So that `is`, a changed argument and two names for one list mean what they mean in one
process, each side keeps the mutable objects of a judgement under the same numbers: both count them in the order in
which they are written and read. What changed since the last message crosses with the next one. An object that either
side no longer holds is forgotten by both, so for most programs the table is empty after every call.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from operator import is_
from typing import Any

MUTABLE: tuple[type, ...] = (list, dict, set, bytearray, deque, Counter, OrderedDict, defaultdict)


class Shared:
    """Objects by number and numbers by object.

    Iterators stay where they are: the side that `lends` gives its own a number, and the other makes with `borrow` one
    that asks for the items of that number.
    """

    def __init__(self, lends: bool = False, borrow: Callable[[int], Iterator[Any]] | None = None) -> None:
        self.lends = lends
        self.borrow = borrow
        self.count = 0
        self._items: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}
        self._seen: dict[int, tuple[Any, ...]] = {}

    def add(self, item: Any) -> int:
        """Give the object the next number and return that."""
        number = self.count
        self.count += 1
        self._items[number] = item
        self._numbers[id(item)] = number
        return number

    def number(self, item: Any) -> int | None:
        """Return the object's number, or None for one that never crossed."""
        return self._numbers.get(id(item))

    def get(self, number: Any) -> Any:
        """Return the object; KeyError for a number that is none or was given back."""
        if type(number) is not int:
            raise KeyError(number)
        return self._items[number]

    def drop(self, number: Any) -> None:
        """Forget the object of that number, if there is one."""
        if type(number) is int and number in self._items:
            self._numbers.pop(id(self._items.pop(number)), None)
            self._seen.pop(number, None)

    def cut(self, count: int) -> None:
        """Take the numbers from `count` on back, after a value that could not be written."""
        for number in range(count, self.count):
            self.drop(number)
        self.count = count

    def mark(self) -> None:
        """Take what every object holds now as what the other side knows."""
        self._seen = {number: _parts(item) for number, item in self._items.items()}

    def changed(self) -> Iterator[tuple[int, Any]]:
        """Yield the objects that hold something else than they did at the last mark."""
        for number, seen in list(self._seen.items()):
            item = self._items[number]
            parts = _parts(item)
            if len(parts) != len(seen) or not all(map(is_, parts, seen)):
                yield number, item

    def drop_unused(self) -> list[int]:
        """Forget the objects that nobody but this table holds; return their numbers.

        Neither side can change or return them any more. What this side lends stays until the other has no use for it.
        """
        dropped = []
        for number in list(self._items):  # a container has a lower number than its parts, so one pass is enough
            if self.lends and base_of(type(self._items[number])) is None:
                continue
            if sys.getrefcount(self._items[number]) <= _HELD_BY_THE_TABLE_ALONE:
                self.drop(number)
                dropped.append(number)
        return dropped


def base_of(kind: type) -> type | None:
    """Return the mutable type that `kind` is or descends from, None for any other type."""
    return kind if kind in MUTABLE else next((base for base in kind.__mro__ if base in MUTABLE), None)


def _parts(item: Any) -> tuple[Any, ...]:
    """Return what a container holds. The methods are the base's own: a subclass may have changed them."""
    base: Any = base_of(type(item))
    if base is None:
        return ()
    if issubclass(base, dict):
        return (*base.keys(item), *base.values(item))
    return tuple(base.__iter__(item))


def _references_of_the_table() -> int:
    items = {0: [0]}
    return sys.getrefcount(items[0])


_HELD_BY_THE_TABLE_ALONE = _references_of_the_table()
