"""Cuts what a prompt shows before a function to a number of characters, as coding assistants do."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from evaluation.from_code.source.find import Function
from evaluation.source import bound_names

_APART = 3
"""Characters that separate a piece from its neighbours, at most."""


@dataclass(frozen=True)
class Piece:
    """A part of a prompt, and the statement of the file that it shows; one without a statement is always shown."""

    text: str
    node: ast.stmt | None = None


def fitting(pieces: Sequence[Piece], function: Function, names: set[str], room: int) -> list[Piece]:
    """The pieces that fit, in their order: first the constructor and what the function names, then the others, each
    time the nearest in the file first."""
    names = names | {n.attr for n in ast.walk(function.node) if isinstance(n, ast.Attribute)} | {"__init__"}

    def rank(piece: Piece) -> tuple[bool, bool, int]:
        if piece.node is None:
            return False, False, 0
        return True, not bound_names(piece.node) & names, abs(piece.node.lineno - function.node.lineno)

    kept = set()
    for at, piece in sorted(enumerate(pieces), key=lambda each: rank(each[1])):
        length = len(piece.text) + _APART
        if piece.node is None or length <= room:
            kept.add(at)
            room -= length
    return [piece for at, piece in enumerate(pieces) if at in kept]
