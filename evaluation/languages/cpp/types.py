"""Types as C++ writes them, and literals."""

from __future__ import annotations

import math

from evaluation.languages.base import UnsupportedError
from evaluation.languages.types import Type

MIN_INT, MAX_INT = -(2**63), 2**63 - 1
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


def literal(value: object, kind: Type) -> str:
    """An expression for a Python value of that type, which names the type of a container.

    Raises UnsupportedError for an int that 64 bits cannot hold and for a string that is not Unicode.
    """
    if value is None:
        return "std::nullopt"
    if kind.kind == "optional":
        return literal(value, kind.item)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, int):
        return integer(value, "(-9223372036854775807LL - 1)")
    return f"{name(kind)}{_braces(value, kind)}"


def _braces(value: object, kind: Type) -> str:
    """A container without its type: enough inside another one that is not a tuple or an optional."""
    if isinstance(value, dict):
        items = [f"{{{_nested(key, kind.parts[0])}, {_nested(item, kind.parts[1])}}}" for key, item in value.items()]
    elif isinstance(value, tuple):
        items = [literal(item, part) for item, part in zip(value, kind.parts, strict=True)]
    elif isinstance(value, list):
        items = [_nested(item, kind.item) for item in value]
    else:
        raise UnsupportedError(f"a {type(value).__name__}")
    return f"{{{', '.join(items)}}}"


def _nested(value: object, kind: Type) -> str:
    return _braces(value, kind) if isinstance(value, list | tuple | dict) and value else literal(value, kind)


def integer(value: int, least: str) -> str:
    """A 64-bit integer; `least` is how the language writes the smallest. Raises UnsupportedError."""
    if not MIN_INT <= value <= MAX_INT:
        raise UnsupportedError("an int beyond 64 bits")
    return least if value == MIN_INT else str(value)


def _float(value: float) -> str:
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return repr(value)


def _string(value: str) -> str:
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise UnsupportedError("a string that is not Unicode") from None
    text = "".join(_ESCAPES.get(c) or (c if c.isprintable() else _bytes(c)) for c in value)
    return f'std::string("{text}", {size})' if "\0" in value else f'"{text}"'


def _bytes(character: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in character.encode())
