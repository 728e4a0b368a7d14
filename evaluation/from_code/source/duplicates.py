"""Functions with the same or nearly the same body, so that each problem is in a dataset once."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence

from evaluation.source import list_arguments

NEAR = 0.85
"""Share of common five-token sequences (Jaccard) from which two bodies count as nearly the same."""
_SHINGLE_TOKENS = 5


def find_duplicates(functions: Sequence[ast.FunctionDef | ast.AsyncFunctionDef]) -> dict[int, tuple[int, bool]]:
    """Index of each function that repeats an earlier one -> (index of that one, whether the bodies are the same).

    Names of the function, its parameters and variables do not count, nor do docstring, annotations and comments.
    """
    tokens = [_list_tokens(function) for function in functions]
    shingles = [
        frozenset(tuple(each[i : i + _SHINGLE_TOKENS]) for i in range(max(1, len(each) - _SHINGLE_TOKENS + 1)))
        for each in tokens
    ]
    found: dict[int, tuple[int, bool]] = {}
    for later in range(len(functions)):
        for earlier in range(later):
            if earlier in found:
                continue
            if tokens[earlier] == tokens[later]:
                found[later] = (earlier, True)
                break
            one, other = shingles[earlier], shingles[later]
            if min(len(one), len(other)) >= NEAR * max(len(one), len(other)):
                common = len(one & other)
                if common >= NEAR * (len(one) + len(other) - common):
                    found[later] = (earlier, False)
                    break
    return found


def _list_tokens(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    changed = copy.deepcopy(function)
    if ast.get_docstring(changed, clean=False) is not None:
        changed.body = changed.body[1:]
    every = list_arguments(changed.args, starred=True)
    names = {changed.name: "f", **{argument.arg: f"a{i}" for i, argument in enumerate(every)}}
    for node in ast.walk(changed):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.setdefault(node.id, f"v{len(names)}")
    found: list[str] = []
    for statement in changed.body:
        _append_tokens(statement, names, found)
    return found


def _append_tokens(node: ast.AST, names: dict[str, str], into: list[str]) -> None:
    into.append(type(node).__name__)
    for field, value in ast.iter_fields(node):
        if field in ("ctx", "annotation", "type_comment", "returns", "kind"):
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.AST):
                _append_tokens(each, names, into)
            elif each is not None:
                into.append(names.get(each, each) if isinstance(each, str) else repr(each))
