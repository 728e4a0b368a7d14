"""The types of a signature: what a value is in every language, written as in Python (`dict[str, list[int]]`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

SIMPLE = ("bool", "int", "float", "str", "none")
GENERIC = ("list", "tuple", "dict", "optional")
_KEYS = ("bool", "int", "float", "str")
_TOKEN = re.compile(r"\s*([A-Za-z_]\w*|[\[\],])")
_MAX_DEPTH = 12


class TypeTextError(ValueError):
    """A text that is not a type; the message says what is wrong and which types there are."""


@dataclass(frozen=True, slots=True)
class Type:
    """A type: its kind, one of SIMPLE or GENERIC, and the types in its brackets."""

    kind: str
    parts: tuple[Type, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}[{', '.join(map(str, self.parts))}]" if self.parts else self.kind

    @property
    def item(self) -> Type:
        """The type of a list's items, or of an optional's value."""
        return self.parts[0]


def parse_type(text: str) -> Type:
    """The type in a text. Raises TypeTextError."""
    parser = _Parser(text)
    found = parser.type(0)
    if parser.rest:
        raise TypeTextError(f"{text!r} goes on after a type: remove {parser.rest!r}")
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self.rest = text.strip()

    def type(self, depth: int) -> Type:
        kind = self._next()
        if depth > _MAX_DEPTH:
            raise TypeTextError(f"{self._text[:60]!r} nests types deeper than {_MAX_DEPTH}")
        if kind in SIMPLE:
            return Type(kind)
        if kind not in GENERIC:
            known = ", ".join((*SIMPLE, "list[T]", "tuple[T, ...]", "dict[K, V]", "optional[T]"))
            raise TypeTextError(f"{kind!r} in {self._text[:60]!r} is not a type: use {known}")
        self._expect("[")
        parts = [self.type(depth + 1)]
        while self.rest[:1] == ",":
            self._next()
            parts.append(self.type(depth + 1))
        self._expect("]")
        return self._checked(Type(kind, tuple(parts)))

    def _checked(self, found: Type) -> Type:
        wanted = {"list": 1, "optional": 1, "dict": 2}.get(found.kind)
        if wanted not in (None, len(found.parts)):
            raise TypeTextError(f"{str(found)!r} needs {wanted} types in its brackets")
        if found.kind == "dict" and found.parts[0].kind not in _KEYS:
            raise TypeTextError(f"{str(found)!r}: a key is one of {', '.join(_KEYS)}")
        if found.kind == "optional" and found.item.kind in ("none", "optional"):
            raise TypeTextError(f"{str(found)!r}: give optional[T] a type that has values of its own")
        return found

    def _next(self) -> str:
        found = _TOKEN.match(self.rest)
        if found is None:
            raise TypeTextError(f"{self._text[:60]!r} is not a type: {self.rest[:20]!r} cannot be read")
        self.rest = self.rest[found.end() :].strip()
        return found[1]

    def _expect(self, token: str) -> None:
        if not self.rest.startswith(token):
            raise TypeTextError(f"{self._text[:60]!r} is not a type: {token!r} is missing")
        self.rest = self.rest[1:].strip()
