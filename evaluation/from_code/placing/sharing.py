"""Which lists, dicts and sets a call leaves in two places, so that who changes one changes the other.

Runs in the sandbox, after a call. It reads what a caller reaches without a method: items and public attributes, as
`recording.objects` reads them, so no code of the project runs.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from evaluation.from_code.recording import objects

MAX_PLACES = 800
MAX_PLACES_EACH = 4
"""Of one container: the number of pairs grows with the square."""
KEPT = "kept"
"""How the text of a container begins that an earlier call left."""
_LISTS = (list, tuple, collections.deque)
_CONTAINERS = (list, dict, set, bytearray, collections.deque)
_DATA = (str, bytes, int, float, bool, type(None))


def list_shared(every: Sequence[Any], earlier: dict[int, Any] | None = None) -> list[str]:
    """Two places for each container among these values and in them that stands in both; where `earlier` holds the
    containers of earlier calls by their ids, also the places of those. Adds the new ones to it.

    An empty one in two of the values does not count: who is given nothing may return it as it is.
    """
    found: dict[int, tuple[Any, list[tuple[int, str]]]] = {}
    for number, place, container in _list_containers(every):
        found.setdefault(id(container), (container, []))[1].append((number, place))
    shared = []
    for container, places in found.values():
        pairs = itertools.combinations(places[:MAX_PLACES_EACH], 2)
        counts = _has_items(container)
        shared += [f"{one} is {other}" for (first, one), (second, other) in pairs if counts or first == second]
    if earlier is not None:
        shared += [f"{KEPT} {places[0][1]}" for key, (_, places) in found.items() if key in earlier]
        earlier |= {key: container for key, (container, _) in found.items()}  # they stay, so an id stays its own
    return sorted(shared)


def _list_containers(every: Sequence[Any]) -> Iterator[tuple[int, str, Any]]:
    """(number of the value, place in it, container) for each place that holds one; what a container holds once for each
    of the values."""
    left = MAX_PLACES
    for number, root in enumerate(every):
        todo, met = [(str(number), root)], set[int]()
        while todo and left:
            place, value = todo.pop()
            if isinstance(value, _CONTAINERS):
                yield number, place, value
            if type(value) in _DATA or id(value) in met or objects.is_found_by_name(type(value)):
                continue
            left -= 1
            if type(value) is not tuple:  # an equal one may be another object
                met.add(id(value))
            todo += [(place + name, part) for name, part in reversed(list(_list_parts(value)))]


def _has_items(container: Any) -> bool:
    """Whether it holds something, by the builtin type: a derived class may say otherwise."""
    base: Any = next(kind for kind in _CONTAINERS if isinstance(container, kind))
    return bool(base.__len__(container))


def _list_parts(value: Any) -> Iterator[tuple[str, Any]]:
    base: Any = next((kind for kind in _LISTS if isinstance(value, kind)), None)
    if isinstance(value, dict):
        named = [(repr(key) if type(key) in _DATA else "...", item) for key, item in dict.items(value)]
        yield from ((f"[{name}]", item) for name, item in sorted(named, key=lambda pair: pair[0]))
    elif base is not None:
        yield from ((f"[{number}]", item) for number, item in enumerate(base.__iter__(value)))
    attributes = objects.read_attributes(type(value), value)
    yield from ((f".{name}", part) for name, part in sorted(attributes.items()) if not name.startswith("_"))
