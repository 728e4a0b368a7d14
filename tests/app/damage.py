"""Documents with one wrong value, for tests of every place that a file comes in."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

REMOVED = object()
DAMAGE = ("x", "long" * 50_000, 10**400, 2**63, 1e308, 5e-324, 0, -1, -1e308, float("nan"), None, True, [], {}, REMOVED)


def leaves(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """The path of every value that holds no other."""
    children = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    if not children:
        yield path
    for key, child in children:
        yield from leaves(child, (*path, key))


def kinds(whole: dict[str, Any]) -> list[tuple]:
    """One path for each place of the form, such as `arms.*.tasks.*.wall_s`."""
    found: dict[tuple, tuple] = {}
    for path in leaves(whole):
        found.setdefault(tuple("*" if isinstance(part, int) else part for part in path), path)
    return list(found.values())


def damaged(whole: dict[str, Any], path: tuple, value: object) -> bytes:
    """The document as JSON with this value in this place."""
    file = copy.deepcopy(whole)
    place = file
    for part in path[:-1]:
        place = place[part]
    if value is REMOVED:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return json.dumps(file).encode()
