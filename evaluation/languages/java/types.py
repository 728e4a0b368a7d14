"""Types and literals in Java.

An int is a long, an optional a value or null, a tuple a List: of its items' type where they have one, else of Object.
"""

from __future__ import annotations

import json
from typing import Any

from evaluation.languages.base import UnsupportedError
from evaluation.languages.literals import LiteralStyle, require_64_bits
from evaluation.languages.types import Type

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


def nullable(items: list[str]) -> str:
    """A List that may hold null, which List.of refuses."""
    return "Collections.singletonList(null)" if items == ["null"] else f"Arrays.asList({', '.join(items)})"


def _dict(pairs: list[tuple[str, str]]) -> str:
    if any(item == "null" for _, item in pairs):
        raise UnsupportedError("none as a value of a dict")
    if len(pairs) <= _MAX_OF:
        return f"Map.of({', '.join(f'{key}, {item}' for key, item in pairs)})"
    return f"Map.ofEntries({', '.join(f'Map.entry({key}, {item})' for key, item in pairs)})"


def _container(value: Any, kind: Type) -> str:
    if isinstance(value, dict):
        return _dict([(literal(key, kind.parts[0]), literal(item, kind.parts[1])) for key, item in value.items()])
    items = _STYLE.write_items(value, kind)
    return f"List.of({', '.join(items)})" if "null" not in items else nullable(items)


_FLOATS = {"nan": "Double.NaN", "inf": "Double.POSITIVE_INFINITY", "-inf": "Double.NEGATIVE_INFINITY"}
_STYLE = LiteralStyle("null", _FLOATS, json.dumps, lambda value: f"{require_64_bits(value)}L", _container)
literal, write_form = _STYLE.write, _STYLE.write_form
