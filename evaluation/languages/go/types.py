"""Types and literals in Go.

A tuple is an array where its items have one type, else a struct with the fields V0, V1, ...; an optional is a pointer.
"""

from __future__ import annotations

import math

from evaluation.languages.base import UnsupportedError
from evaluation.languages.types import Type

MAX_INT = 2**63
_SIMPLE = {"bool": "bool", "int": "int", "float": "float64", "str": "string"}


def name(kind: Type) -> str:
    """The type as a declaration writes it. Raises UnsupportedError for none, which is not a type in Go."""
    if kind.kind in _SIMPLE:
        return _SIMPLE[kind.kind]
    parts = [name(part) for part in kind.parts]
    if kind.kind == "list":
        return f"[]{parts[0]}"
    if kind.kind == "dict":
        return f"map[{parts[0]}]{parts[1]}"
    if kind.kind == "optional":
        return f"*{parts[0]}"
    if kind.kind == "none":
        raise UnsupportedError("none as the type of a value")
    if is_array(kind):
        return f"[{len(parts)}]{parts[0]}"
    return "struct{ " + "; ".join(f"V{position} {part}" for position, part in enumerate(parts)) + " }"


def is_array(kind: Type) -> bool:
    """Whether the items of a tuple have one type."""
    return len(set(kind.parts)) == 1


def literal(value: object, kind: Type) -> str:
    """An expression for a Python value of that type. Raises UnsupportedError for one that Go cannot express."""
    if kind.kind == "optional":
        if value is None:
            return "nil"
        inner = literal(value, kind.item)
        return f"&{inner}" if kind.item.parts else f"new({inner})"
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, int):
        if not -MAX_INT <= value < MAX_INT:
            raise UnsupportedError("an int beyond 64 bits")
        return str(value)
    return name(kind) + _items(value, kind)


def _items(value: object, kind: Type) -> str:
    """The items in braces; the type of an inner list, dict or tuple follows from the outer one."""
    if isinstance(value, dict):
        rows = [f"{_item(key, kind.parts[0])}: {_item(item, kind.parts[1])}" for key, item in value.items()]
    elif isinstance(value, tuple):
        typed = literal if not is_array(kind) else _item
        rows = [typed(item, part) for item, part in zip(value, kind.parts, strict=True)]
    elif isinstance(value, list):
        rows = [_item(item, kind.item) for item in value]
    else:
        raise UnsupportedError(f"a {type(value).__name__}")
    return "{" + ", ".join(rows) + "}"


def _item(value: object, kind: Type) -> str:
    return _items(value, kind) if kind.kind in ("list", "tuple", "dict") else literal(value, kind)


def _float(value: float) -> str:
    if math.isnan(value):
        return "math.NaN()"
    if math.isinf(value):
        return f"math.Inf({'1' if value > 0 else '-1'})"
    if value == 0 and math.copysign(1, value) < 0:
        return "math.Copysign(0, -1)"
    return repr(value)


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UnsupportedError("a string that is not Unicode text") from None
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return '"' + "".join(escapes.get(char) or _char(char) for char in value) + '"'


def _char(char: str) -> str:
    return char if char.isprintable() else f"\\U{ord(char):08x}"
