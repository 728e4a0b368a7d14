"""The types of a signature: what a value is in every language, written as in Python (`dict[str, list[int]]`)."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from evaluation.source import parse

SIMPLE = ("bool", "int", "float", "str", "none")
GENERIC = ("list", "tuple", "dict", "optional")
_KEYS = ("bool", "int", "float", "str")
_KNOWN = ", ".join((*SIMPLE, "list[T]", "tuple[T, ...]", "dict[K, V]", "optional[T]"))
_MAX_DEPTH = 12


class TypeTextError(ValueError):
    """A text that is not a type; the message says what is wrong and which types there are."""


@dataclass(frozen=True, slots=True)
class Type:
    """A type: its name, one of SIMPLE or GENERIC, and the types in its brackets."""

    name: str
    parts: tuple[Type, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}[{', '.join(map(str, self.parts))}]" if self.parts else self.name

    @property
    def item(self) -> Type:
        """The type of a list's items, or of an optional's value."""
        return self.parts[0]


def parse_type(text: str) -> Type:
    """The type in a text. Raises TypeTextError."""
    tree = parse(text.strip())
    statement = tree.body[0] if tree is not None and len(tree.body) == 1 else None
    if not isinstance(statement, ast.Expr):
        raise TypeTextError(f"{text[:60]!r} is not a type: use {_KNOWN}")
    return _read(statement.value, text[:60], 0)


def _read(node: ast.expr, text: str, depth: int) -> Type:
    if depth > _MAX_DEPTH:
        raise TypeTextError(f"{text!r} nests types deeper than {_MAX_DEPTH}")
    match node:
        case ast.Name(id=kind) if kind in SIMPLE:
            return Type(kind)
        case ast.Subscript(value=ast.Name(id=kind), slice=inside) if kind in GENERIC:
            nodes = inside.elts if isinstance(inside, ast.Tuple) else [inside]
            return _check(Type(kind, tuple(_read(each, text, depth + 1) for each in nodes)))
    wrong = node.value if isinstance(node, ast.Subscript) else node
    raise TypeTextError(f"{ast.unparse(wrong)[:60]!r} in {text!r} is not a type: use {_KNOWN}")


def _check(found: Type) -> Type:
    wanted = {"list": 1, "optional": 1, "dict": 2}.get(found.name, len(found.parts) or 1)
    if wanted != len(found.parts):
        raise TypeTextError(f"{str(found)!r} needs {wanted} types in its brackets")
    if found.name == "dict" and found.parts[0].name not in _KEYS:
        raise TypeTextError(f"{str(found)!r}: a key is one of {', '.join(_KEYS)}")
    if found.name == "optional" and found.item.name in ("none", "optional"):
        raise TypeTextError(f"{str(found)!r}: give optional[T] a type that has values of its own")
    return found
