"""Types and literals in Go.

A tuple is an array where its items have one type, else a struct with the fields V0, V1, ...; an optional is a pointer.
"""

from __future__ import annotations

from evaluation.languages.base import UnsupportedError
from evaluation.languages.literals import LiteralStyle, require_64_bits, require_unicode
from evaluation.languages.types import Type

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


def _container(value: object, kind: Type) -> str:
    return name(kind) + _items(value, kind)


def _items(value: object, kind: Type) -> str:
    """The items in braces; the type of an inner list, dict or tuple follows from the outer one."""
    if isinstance(value, dict):
        rows = [f"{_item(key, kind.parts[0])}: {_item(item, kind.parts[1])}" for key, item in value.items()]
    elif isinstance(value, tuple) and not is_array(kind):
        rows = _STYLE.write_items(value, kind)
    else:
        assert isinstance(value, list | tuple)
        rows = [_item(item, kind.item) for item in value]
    return "{" + ", ".join(rows) + "}"


def _item(value: object, kind: Type) -> str:
    return _items(value, kind) if kind.kind in ("list", "tuple", "dict") else literal(value, kind)


def _present(value: object, kind: Type) -> str:
    inner = literal(value, kind)
    return f"&{inner}" if kind.parts else f"new({inner})"


def _text(value: str) -> str:
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return '"' + "".join(escapes.get(char) or _char(char) for char in require_unicode(value)) + '"'


def _char(char: str) -> str:
    return char if char.isprintable() else f"\\U{ord(char):08x}"


_FLOATS = {"nan": "math.NaN()", "inf": "math.Inf(1)", "-inf": "math.Inf(-1)", "-0": "math.Copysign(0, -1)"}
_STYLE = LiteralStyle("nil", _FLOATS, _text, lambda value: str(require_64_bits(value)), _container, _present)
literal, write_form = _STYLE.write, _STYLE.write_form
