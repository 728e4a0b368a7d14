"""Types as Rust writes them, and literals. Values are owned in every position: `String` and `Vec`, never `&str`."""

from __future__ import annotations

from typing import Any

from evaluation.languages.base import UnsupportedError
from evaluation.languages.cpp.types import integer
from evaluation.languages.literals import LiteralStyle, require_unicode
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


def _container(value: Any, kind: Type) -> str:
    if isinstance(value, dict):
        pairs = [_tuple([literal(key, kind.parts[0]), literal(item, kind.parts[1])]) for key, item in value.items()]
        return f"HashMap::from([{', '.join(pairs)}])"
    items = _STYLE.write_items(value, kind)
    return _tuple(items) if isinstance(value, tuple) else f"vec![{', '.join(items)}]"


def _tuple(parts: list[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _present(value: object, kind: Type) -> str:
    return f"Some({literal(value, kind)})"


def _text(value: str) -> str:
    text = "".join(_ESCAPES.get(c) or (c if c.isprintable() else f"\\u{{{ord(c):x}}}") for c in require_unicode(value))
    return f'"{text}".to_string()'


_FLOATS = {"nan": "f64::NAN", "inf": "f64::INFINITY", "-inf": "f64::NEG_INFINITY"}
_STYLE = LiteralStyle("None", _FLOATS, _text, lambda value: integer(value, "i64::MIN"), _container, _present)
literal, write_form = _STYLE.write, _STYLE.write_form
