"""The mutable objects that guest and checker share, by number.

A value crosses as a copy. So that identity, changed arguments and two names for one list behave as in one process,
each side keeps the mutable objects of a judgement under the same numbers: both count them in the order in which they
are written and read. Changes since the last message cross with the next one. Both sides forget an object that one of
them no longer holds, so for most programs the table is empty after every call.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from operator import is_
from typing import Any

MUTABLE: tuple[type, ...] = (list, dict, set, bytearray, deque, Counter, OrderedDict, defaultdict)


class SharedObjects:
    """Objects by number and numbers by object.

    Iterators do not cross: the side that `owns_iterators` gives its iterator a number, and the other side creates with
    `make_proxy` one that requests the items of that number.
    """

    def __init__(self, owns_iterators: bool = False, make_proxy: Callable[[int], Iterator[Any]] | None = None) -> None:
        self.owns_iterators = owns_iterators
        self.make_proxy = make_proxy
        self.count = 0
        self._items: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}
        self._seen: dict[int, tuple[Any, ...]] = {}

    def add(self, item: Any) -> int:
        """Give the object the next number and return it."""
        number = self.count
        self.count += 1
        self._items[number] = item
        self._numbers[id(item)] = number
        return number

    def find_number(self, item: Any) -> int | None:
        """Return the object's number, or None for one that is not in the table."""
        return self._numbers.get(id(item))

    def get(self, number: Any) -> Any:
        """Return the object; KeyError for an unknown or dropped number."""
        if type(number) is not int:
            raise KeyError(number)
        return self._items[number]

    def drop(self, number: Any) -> None:
        """Forget the object of that number, if there is one."""
        if type(number) is int and number in self._items:
            self._numbers.pop(id(self._items.pop(number)), None)
            self._seen.pop(number, None)

    def truncate(self, count: int) -> None:
        """Drop the numbers from `count` on, after a value that could not be encoded."""
        for number in range(count, self.count):
            self.drop(number)
        self.count = count

    def mark(self) -> None:
        """Record the current content of every object as known to the other side."""
        self._seen = {number: _list_parts(item) for number, item in self._items.items()}

    def iterate_changed(self) -> Iterator[tuple[int, Any]]:
        """Yield the objects whose content changed since the last mark."""
        for number, seen in list(self._seen.items()):
            item = self._items[number]
            parts = _list_parts(item)
            if len(parts) != len(seen) or not all(map(is_, parts, seen)):
                yield number, item

    def drop_unused(self) -> list[int]:
        """Forget the objects that only this table references; return their numbers.

        This side cannot change or see them any more; one that the other side still returns crosses as a new object. An
        iterator stays until the other side drops it.
        """
        dropped = []
        # A container mostly has a lower number than its parts; what one pass leaves, the next takes.
        for number in list(self._items):
            if self.owns_iterators and find_mutable_base(type(self._items[number])) is None:
                continue
            if sys.getrefcount(self._items[number]) <= _HELD_BY_THE_TABLE_ALONE:
                self.drop(number)
                dropped.append(number)
        return dropped


def find_mutable_base(kind: type) -> type | None:
    """Return the mutable type that `kind` is or descends from, None for any other type."""
    return kind if kind in MUTABLE else next((base for base in kind.__mro__ if base in MUTABLE), None)


def _list_parts(item: Any) -> tuple[Any, ...]:
    """Return the content of a container, by the methods of its base: a subclass may override them."""
    base: Any = find_mutable_base(type(item))
    if base is None:
        return ()
    if issubclass(base, dict):
        return (*base.keys(item), *base.values(item))
    return tuple(base.__iter__(item))


def _count_table_references() -> int:
    items = {0: [0]}
    return sys.getrefcount(items[0])


_HELD_BY_THE_TABLE_ALONE = _count_table_references()
