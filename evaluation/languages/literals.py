"""Writes Python values as expressions of a language: what the languages have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from evaluation.languages.base import UnsupportedError
from evaluation.languages.types import Type
from evaluation.languages.values import Json, float_form, from_json

_MAX_INT = 2**63


@dataclass(frozen=True, slots=True)
class LiteralStyle:
    """How a language writes values: what is absent, a text, an int, and a list, tuple or dict of a type.

    `floats` are the floats that are not written as Python does, by their JSON form. `present` writes the value of an
    optional; without it, it is written like any other.
    """

    none: str
    floats: Mapping[Json, str]
    text: Callable[[str], str]
    integer: Callable[[int], str]
    container: Callable[[Any, Type], str]
    present: Callable[[object, Type], str] | None = None

    def write(self, value: object, kind: Type) -> str:
        """An expression for a value of that type. Raises UnsupportedError for one that the language cannot express."""
        if value is None:
            return self.none
        if kind.kind == "optional":
            return (self.present or self.write)(value, kind.item)
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, float):
            return self.floats.get(float_form(value)) or repr(value)
        if isinstance(value, int):
            return self.integer(value)
        if isinstance(value, list | tuple | dict):
            return self.container(value, kind)
        raise UnsupportedError(f"a {type(value).__name__}")

    def write_form(self, form: Json, kind: Type) -> str:
        """The same for a value in JSON form."""
        return self.write(from_json(form, kind), kind)

    def write_items(self, values: list[Any] | tuple[Any, ...], kind: Type) -> list[str]:
        """The items of a list or of a tuple of that type."""
        kinds = [kind.item] * len(values) if isinstance(values, list) else kind.parts
        return [self.write(item, part) for item, part in zip(values, kinds, strict=True)]


def require_64_bits(value: int) -> int:
    """Returns the int. Raises UnsupportedError for one that does not fit."""
    if not -_MAX_INT <= value < _MAX_INT:
        raise UnsupportedError("an int beyond 64 bits")
    return value


def require_unicode(value: str) -> str:
    """Returns the text. Raises UnsupportedError for one with half a character."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UnsupportedError("a string that is not Unicode") from None
    return value
