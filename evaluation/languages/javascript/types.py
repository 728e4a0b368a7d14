"""Types as JSDoc names them, and literals."""

from __future__ import annotations

import json
from typing import Any

from evaluation.languages.base import UnsupportedError
from evaluation.languages.literals import LiteralStyle
from evaluation.languages.types import Type

MAX_INT = 2**53 - 1
_SIMPLE = {"bool": "boolean", "int": "number", "float": "number", "str": "string", "none": "null"}


def name(kind: Type) -> str:
    """The type as JSDoc writes it."""
    if kind.kind in _SIMPLE:
        return _SIMPLE[kind.kind]
    parts = [name(part) for part in kind.parts]
    if kind.kind == "list":
        return f"({parts[0]})[]" if "|" in parts[0] else f"{parts[0]}[]"
    if kind.kind == "tuple":
        return f"[{', '.join(parts)}]"
    if kind.kind == "dict":
        return f"Object<{parts[0]}, {parts[1]}>"
    return f"{parts[0]} | null"


def _container(value: Any, kind: Type) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)}: {literal(item, kind.parts[1])}" for key, item in value.items()) + "}"
    return f"[{', '.join(_STYLE.write_items(value, kind))}]"


def _integer(value: int) -> str:
    if abs(value) > MAX_INT:
        raise UnsupportedError("an int beyond 2**53")
    return str(value)


def _key(key: object) -> str:
    """The name of a property: what JavaScript makes of the key as a string."""
    if isinstance(key, bool):
        text = "true" if key else "false"
    elif isinstance(key, float):
        text = str(int(key)) if key.is_integer() and abs(key) <= MAX_INT else repr(key)
    else:
        text = str(key)
    return f"[{json.dumps(text)}]" if text == "__proto__" else json.dumps(text)


_FLOATS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_STYLE = LiteralStyle("null", _FLOATS, json.dumps, _integer, _container)
literal, write_form = _STYLE.write, _STYLE.write_form
