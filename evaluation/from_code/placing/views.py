"""What a caller sees of an object whose attributes are private: its properties, length, items and texts.

Runs in the sandbox, after a call, on copies that nothing else uses. It executes the project's own code.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

from evaluation.from_code.recording import values

MAX_CHARS = 600
"""Of one view; longer ones are left out."""
MAX_VIEWS = 12
MAX_ITEMS = 50
_SPECIAL: dict[str, Callable[[Any], Any]] = {"__len__": len, "__str__": str, "__repr__": repr, "__bool__": bool}


def read_views(value: Any, is_own: Callable[[type], bool]) -> list[list[Any]]:
    """[name, tree] for each view of an object of the project's classes; of any other value none.

    `is_own` tells whether a class is the project's. What raises is seen as the class of its exception.
    """
    found: list[list[Any]] = []
    for name, read in _readers(type(value), is_own)[:MAX_VIEWS]:
        try:
            tree = json.loads(values.write(read(value)))
        except values.NotPlainError:
            continue
        except Exception as error:
            tree = {"raised": type(error).__name__}
        if len(json.dumps(tree)) <= MAX_CHARS:
            found.append([name, tree])
    return found


def _readers(kind: type, is_own: Callable[[type], bool]) -> list[tuple[str, Callable[[Any], Any]]]:
    """(name, function that reads it) of each view, in the order of the names."""
    found: dict[str, Callable[[Any], Any]] = {}
    for owner in kind.__mro__:
        if not is_own(owner):
            continue
        for name, member in vars(owner).items():
            if name in _SPECIAL:
                found.setdefault(name, _SPECIAL[name])
            elif name == "__iter__" and not hasattr(kind, "__next__"):
                found.setdefault(name, _items)
            elif isinstance(member, (property, functools.cached_property)) and not name.startswith("_"):
                found.setdefault(name, functools.partial(_attribute, name=name))
    return sorted(found.items())


def _attribute(value: Any, name: str) -> Any:
    return getattr(value, name)


def _items(value: Any) -> Any:
    found = []
    for item in value:
        found.append(item)
        if len(found) > MAX_ITEMS:
            raise values.NotPlainError("too large")
    return found
