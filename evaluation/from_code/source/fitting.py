"""Cuts what a prompt shows before a function to a number of characters, as coding assistants do."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

from evaluation.from_code.source.find import ProjectFunction
from evaluation.source import list_bound_names

_APART = 3
"""Most characters that separate a piece from the next."""


@dataclass(frozen=True)
class PromptPiece:
    """A part of a prompt, and the statement of the file that it shows; one without a statement is always shown.

    `full` is shown instead where there is room, "" for what has no longer form. `is_global` marks a statement of the
    module, which stands before the function's class.
    """

    text: str
    node: ast.stmt | None = None
    full: str = ""
    is_global: bool = False


def select_pieces(
    pieces: Sequence[PromptPiece], function: ProjectFunction, names: set[str], room: int
) -> list[PromptPiece]:
    """The pieces that fit, in their order: first the constructor and what the function names, then the others, each
    time the nearest in the file first. What room is left shows these in full; other methods and classes stay short."""
    names = names | {n.attr for n in ast.walk(function.node) if isinstance(n, ast.Attribute)}

    def rank(piece: PromptPiece) -> tuple[bool, bool, int]:
        if piece.node is None:
            return False, False, 0
        return True, not list_bound_names(piece.node) & names, abs(piece.node.lineno - function.node.lineno)

    order = sorted(enumerate(pieces), key=lambda each: rank(each[1]))
    kept: dict[int, PromptPiece] = {}
    for at, piece in order:
        length = len(piece.text) + _APART
        if piece.node is None or length <= room:
            kept[at] = piece
            room -= length
    for at, piece in order:
        longer = len(piece.full) - len(piece.text)
        is_named = piece.node is None or bool(list_bound_names(piece.node) & names)
        is_definition = isinstance(piece.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if at in kept and piece.full and longer <= room and (is_named or not is_definition):
            kept[at] = replace(piece, text=piece.full)
            room -= longer
    return [kept[at] for at in sorted(kept)]
