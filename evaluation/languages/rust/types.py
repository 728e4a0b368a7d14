"""Types as Rust writes them, and literals. Values are owned in every position: `String` and `Vec`, never `&str`."""

from __future__ import annotations

import math

from evaluation.languages.base import UnsupportedError
from evaluation.languages.cpp.types import integer
from evaluation.languages.types import Type

MAX_TUPLE = 12
"""The standard library's own traits, such as PartialEq, end there."""
_SIMPLE = {"bool": "bool", "int": "i64", "float": "f64", "str": "String", "none": "Option<()>"}
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def name(kind: Type) -> str:
    """The type as a declaration writes it. Raises UnsupportedError for keys and tuples that Rust cannot express."""
    if kind.kind in _SIMPLE:
        return _SIMPLE[kind.kind]
    parts = [name(part) for part in kind.parts]
    if kind.kind == "list":
        return f"Vec<{parts[0]}>"
    if kind.kind == "optional":
        return f"Option<{parts[0]}>"
    if kind.kind == "dict":
        if parts[0] == "f64":
            raise UnsupportedError("a dict with float keys")
        return f"HashMap<{parts[0]}, {parts[1]}>"
    if len(parts) > MAX_TUPLE:
        raise UnsupportedError(f"a tuple of more than {MAX_TUPLE}")
    return _tuple(parts)


def literal(value: object, kind: Type) -> str:
    """An expression for a Python value of that type.

    Raises UnsupportedError for an int that 64 bits cannot hold and for a string that is not Unicode.
    """
    if value is None:
        return "None"
    if kind.kind == "optional":
        return f"Some({literal(value, kind.item)})"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, int):
        return integer(value, "i64::MIN")
    if isinstance(value, list):
        return f"vec![{', '.join(literal(item, kind.item) for item in value)}]"
    if isinstance(value, tuple):
        return _tuple([literal(item, part) for item, part in zip(value, kind.parts, strict=True)])
    if isinstance(value, dict):
        pairs = [_tuple([literal(key, kind.parts[0]), literal(item, kind.parts[1])]) for key, item in value.items()]
        return f"HashMap::from([{', '.join(pairs)}])"
    raise UnsupportedError(f"a {type(value).__name__}")


def _tuple(parts: list[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _float(value: float) -> str:
    if math.isnan(value):
        return "f64::NAN"
    if math.isinf(value):
        return "f64::INFINITY" if value > 0 else "f64::NEG_INFINITY"
    return repr(value)


def _string(value: str) -> str:
    if any("\ud800" <= c <= "\udfff" for c in value):
        raise UnsupportedError("a string that is not Unicode")
    text = "".join(_ESCAPES.get(c) or (c if c.isprintable() else f"\\u{{{ord(c):x}}}") for c in value)
    return f'"{text}".to_string()'
