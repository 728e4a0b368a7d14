"""Types as C++ writes them, and literals."""

from __future__ import annotations

from evaluation.languages.literals import LiteralStyle, require_64_bits, require_unicode
from evaluation.languages.types import Type

_MIN_INT = -(2**63)
_SIMPLE = {
    "bool": "bool", "int": "long long", "float": "double", "str": "std::string", "none": "std::nullopt_t",
}  # fmt: skip
_GENERIC = {"list": "std::vector", "tuple": "std::tuple", "dict": "std::map", "optional": "std::optional"}
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def name(kind: Type) -> str:
    """The type as a declaration writes it."""
    if kind.kind in _SIMPLE:
        return _SIMPLE[kind.kind]
    return f"{_GENERIC[kind.kind]}<{', '.join(map(name, kind.parts))}>"


def _container(value: object, kind: Type) -> str:
    """A container with its type."""
    return f"{name(kind)}{_braces(value, kind)}"


def _braces(value: object, kind: Type) -> str:
    """A container without its type: enough inside another one that is not a tuple or an optional."""
    if isinstance(value, dict):
        items = [f"{{{_nested(key, kind.parts[0])}, {_nested(item, kind.parts[1])}}}" for key, item in value.items()]
    elif isinstance(value, tuple):
        items = _STYLE.write_items(value, kind)
    else:
        assert isinstance(value, list)
        items = [_nested(item, kind.item) for item in value]
    return f"{{{', '.join(items)}}}"


def _nested(value: object, kind: Type) -> str:
    return _braces(value, kind) if isinstance(value, list | tuple | dict) and value else literal(value, kind)


def integer(value: int, least: str) -> str:
    """A 64-bit integer; `least` is how the language writes the smallest. Raises UnsupportedError."""
    return least if require_64_bits(value) == _MIN_INT else str(value)


def _text(value: str) -> str:
    size = len(require_unicode(value).encode())
    text = "".join(_ESCAPES.get(c) or (c if c.isprintable() else _bytes(c)) for c in value)
    return f'std::string("{text}", {size})' if "\0" in value else f'"{text}"'


def _bytes(character: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in character.encode())


_FLOATS = {"nan": "NAN", "inf": "INFINITY", "-inf": "-INFINITY"}
_STYLE = LiteralStyle(
    "std::nullopt", _FLOATS, _text, lambda value: integer(value, "(-9223372036854775807LL - 1)"), _container
)
literal, write_form = _STYLE.write, _STYLE.write_form
"""An expression for a Python value of that type, which names the type of a container. Raises UnsupportedError."""
