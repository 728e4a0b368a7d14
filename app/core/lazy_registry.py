"""What a process can do, by name. It is imported when it is first needed: most commands need none of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class LazyRegistry(Generic[T]):
    """Objects by the name that `get_name` gives them."""

    def __init__(self, get_name: Callable[[T], str]) -> None:
        self._get_name = get_name
        self._load: Callable[[], Sequence[T]] | None = None
        self._by_name: dict[str, T] = {}

    def register(self, load: Callable[[], Sequence[T]]) -> None:
        """Sets the function that returns this process's objects. It is called on first use; register before that."""
        self._load = load

    def get_all(self) -> Mapping[str, T]:
        """The objects by name. Raises RuntimeError if none were registered."""
        if not self._by_name:
            if self._load is None:
                raise RuntimeError("nothing is registered: import app.domains before any work")
            self._by_name = {self._get_name(each): each for each in self._load()}
        return self._by_name
