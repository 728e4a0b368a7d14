"""Types as JSDoc names them, and literals."""

from __future__ import annotations

import json
import math

from evaluation.languages.base import UnsupportedError
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


def literal(value: object, kind: Type) -> str:
    """An expression for a Python value of that type. Raises UnsupportedError for an int that a number cannot hold."""
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
        if abs(value) > MAX_INT:
            raise UnsupportedError("an int beyond 2**53")
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)}: {literal(item, kind.parts[1])}" for key, item in value.items()) + "}"
    if isinstance(value, tuple):
        items = [literal(item, part) for item, part in zip(value, kind.parts, strict=True)]
    elif isinstance(value, list):
        items = [literal(item, kind.item) for item in value]
    else:
        raise UnsupportedError(f"a {type(value).__name__}")
    return f"[{', '.join(items)}]"


def _float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def _key(key: object) -> str:
    """The name of a property: what JavaScript makes of the key as a string."""
    if isinstance(key, bool):
        text = "true" if key else "false"
    elif isinstance(key, float):
        text = str(int(key)) if key.is_integer() and abs(key) <= MAX_INT else repr(key)
    else:
        text = str(key)
    return f"[{json.dumps(text)}]" if text == "__proto__" else json.dumps(text)
