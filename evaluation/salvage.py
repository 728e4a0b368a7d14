"""The part of a text that is a program: unparsable stretches and the author's own demonstration cut away.

A candidate is judged by the task's tests. What it prints, asserts or calls after the function it was asked for is
its demonstration; run, it could fail, wait for input or spend the time limit for an answer that is right. So after
the entry point only definitions stay: functions, classes, imports, and assignments that a definition needs.
"""

from __future__ import annotations

import ast

from evaluation.source import bound_names, compile_error, is_open, parse

MAX_JOINED = 12
"""Most unindented stretches tried together as one statement (a string or bracket may reach column 0)."""

MAX_STRETCHES = 400
"""Most stretches of a text that does not parse as a whole; more are a model repeating itself and are cut."""

_CONTINUES = ("#", ")", "]", "}", "else:", "else ", "elif ", "except:", "except ", "finally:")


def salvage(source: str, entry_point: str) -> str | None:
    """`source` without what is not Python and without demonstration, or None where no entry point is left.

    Text that needs no cut comes back unchanged. Nothing is executed.
    """
    if parse(source) is None:
        source = _parsable(source)
    tree = parse(source)
    if tree is None or compile_error(source) is not None:
        return None
    binding = [i for i, node in enumerate(tree.body) if entry_point in bound_names(node)]
    if not binding:
        return None
    dropped = _demonstration(tree.body, binding[-1], entry_point)
    return _without(source, tree.body, dropped)


def stretches(source: str) -> list[str]:
    """`source` split before each line at column 0 that can start a statement."""
    parts: list[list[str]] = [[]]
    for line in source.split("\n"):
        starts = bool(line) and not line[0].isspace() and not line.startswith(_CONTINUES)
        if starts and any(part.strip() for part in parts[-1]):
            parts.append([])
        parts[-1].append(line)
    return ["\n".join(part) for part in parts]


def _parsable(source: str) -> str:
    """The stretches of `source` that parse, alone or, where they stay open, joined with those after them, in order."""
    parts = stretches(source)[:MAX_STRETCHES]
    kept: list[str] = []
    at = 0
    while at < len(parts):
        end = at + 1
        while is_open("\n".join(parts[at:end])) and end < min(at + MAX_JOINED, len(parts)):
            end += 1
        joined = "\n".join(parts[at:end])
        if parse(joined) is not None:
            kept.append(joined)
            at = end
        else:
            at += 1
    return "\n".join(kept)


def _demonstration(body: list[ast.stmt], entry: int, entry_point: str) -> list[ast.stmt]:
    """The statements to leave out: demonstration after the entry point, stray words and asserts before it."""
    dropped = [node for node in body[:entry] if _is_stray(node)]
    needed = {entry_point}
    for node in body[: entry + 1]:
        needed |= _loaded(node)
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    for node in body[entry + 1 :]:
        if isinstance(node, definitions):
            needed |= _loaded(node)
    for node in reversed(body[entry + 1 :]):
        if isinstance(node, definitions):
            continue
        if bound_names(node) & needed and not _calls(node, entry_point):
            needed |= _loaded(node)
        else:
            dropped.append(node)
    return dropped


def _is_stray(node: ast.stmt) -> bool:
    match node:
        case ast.Expr(value=ast.Call() | ast.Constant()):
            return False  # sys.setrecursionlimit(...), a module docstring
        case ast.Expr() | ast.Assert() | ast.AnnAssign(value=None):
            return True  # "Solution", "Note: this" are Python too
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return True
    return False


def _loaded(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _calls(node: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == name for n in ast.walk(node))


def _without(source: str, body: list[ast.stmt], dropped: list[ast.stmt]) -> str:
    """`source` without the lines that belong to dropped statements alone."""
    kept = {line for node in body if node not in dropped for line in lines_of(node)}
    cut = {line for node in dropped for line in lines_of(node)} - kept
    if not cut:
        return source
    return "\n".join(line for number, line in enumerate(source.split("\n"), start=1) if number not in cut)


def lines_of(node: ast.stmt) -> range:
    """The line numbers of a statement, decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(d.lineno for d in decorators)])
    return range(first, (node.end_lineno or node.lineno) + 1)
