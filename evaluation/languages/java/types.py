"""Types and literals in Java.

An int is a long, an optional a value or null, a tuple a List: of its items' type where they have one, else of Object.
"""

from __future__ import annotations

import json
import math

from evaluation.languages.base import UnsupportedError
from evaluation.languages.types import Type

MAX_INT = 2**63
_SIMPLE = {"bool": "boolean", "int": "long", "float": "double", "str": "String"}
_BOXED = {"bool": "Boolean", "int": "Long", "float": "Double", "str": "String"}
_MAX_OF = 10
"""How many pairs Map.of takes."""


def name(kind: Type) -> str:
    """The type as a declaration writes it. Raises UnsupportedError for none, which is not a type in Java."""
    return _SIMPLE.get(kind.kind) or boxed(kind)


def boxed(kind: Type) -> str:
    """The type in the brackets of another, where Java allows no primitive type."""
    if kind.kind in _BOXED:
        return _BOXED[kind.kind]
    if kind.kind == "none":
        raise UnsupportedError("none as the type of a value")
    parts = [boxed(part) for part in kind.parts]
    if kind.kind == "dict":
        return f"Map<{parts[0]}, {parts[1]}>"
    if kind.kind == "optional":
        return parts[0]
    return f"List<{parts[0] if len(set(parts)) == 1 else 'Object'}>"


def literal(value: object, kind: Type) -> str:
    """An expression for a Python value of that type. Raises UnsupportedError for one that Java cannot express."""
    if value is None:
        return "null"
    if kind.kind == "optional":
        return literal(value, kind.item)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, int):
        if not -MAX_INT <= value < MAX_INT:
            raise UnsupportedError("an int beyond 64 bits")
        return f"{value}L"
    if isinstance(value, dict):
        return _dict([(literal(key, kind.parts[0]), literal(item, kind.parts[1])) for key, item in value.items()])
    if isinstance(value, tuple):
        items = [literal(item, part) for item, part in zip(value, kind.parts, strict=True)]
    elif isinstance(value, list):
        items = [literal(item, kind.item) for item in value]
    else:
        raise UnsupportedError(f"a {type(value).__name__}")
    return f"List.of({', '.join(items)})" if "null" not in items else nullable(items)


def nullable(items: list[str]) -> str:
    """A List that may hold null, which List.of refuses."""
    return "Collections.singletonList(null)" if items == ["null"] else f"Arrays.asList({', '.join(items)})"


def _dict(pairs: list[tuple[str, str]]) -> str:
    if any(item == "null" for _, item in pairs):
        raise UnsupportedError("none as a value of a dict")
    if len(pairs) <= _MAX_OF:
        return f"Map.of({', '.join(f'{key}, {item}' for key, item in pairs)})"
    return f"Map.ofEntries({', '.join(f'Map.entry({key}, {item})' for key, item in pairs)})"


def _float(value: float) -> str:
    if math.isnan(value):
        return "Double.NaN"
    if math.isinf(value):
        return "Double.POSITIVE_INFINITY" if value > 0 else "Double.NEGATIVE_INFINITY"
    return repr(value)
