"""The imports of a module that a prompt shows, as its file has them: lazily evaluated annotations stay lazy, and what
type checkers alone import stays under `if TYPE_CHECKING:`."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from evaluation.effects import find_root_name
from evaluation.from_code.source.project import Module
from evaluation.source import is_type_checking, list_bound_names

_FLAG = "TYPE_CHECKING"
_BODIES = ("body", "orelse", "finalbody")


def format_imports(module: Module, names: set[str]) -> str:
    """The import statements of a module that give one of these names, its `__future__` imports, and the flag of its
    type-checking blocks, in order."""
    checked = [shown for node in module.tree.body if is_type_checking(node) and (shown := _keep_wanted(node, names))]
    of_checks = {n.id for node in checked for n in ast.walk(node.test) if isinstance(n, ast.Name)}  # type: ignore[attr-defined]
    lines: dict[str, None] = {}
    for node in module.tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            lines[ast.unparse(node)] = None
        elif is_type_checking(node):
            shown = _keep_wanted(node, names)
            lines.update({} if shown is None else {ast.unparse(shown): None})
        elif isinstance(node, ast.Assign) and _FLAG in list_bound_names(node) & of_checks:
            lines[ast.unparse(node)] = None
        else:
            lines.update(dict.fromkeys(_find_lines(node, names | of_checks)))
    return "".join(f"{line}\n" for line in lines)


def list_names_bound_at_runtime(node: ast.stmt) -> set[str]:
    """The names that a statement binds or whose objects it fills (`TABLE[0] = 1`), none for a type-checking block."""
    filled = map(find_root_name, node.targets if isinstance(node, ast.Assign) else ())
    return set() if is_type_checking(node) else list_bound_names(node).union(*filled) - {_FLAG}


def walk_binding(node: ast.stmt, wanted: set[str]) -> Iterator[ast.stmt]:
    """The statements that bind names: of a condition, the first branch that does."""
    if isinstance(node, ast.If | ast.Try | ast.With):
        left = set(wanted)
        for body in walk_bodies(node):
            for each in body:
                if list_bound_names(each) & left:
                    left -= list_bound_names(each)
                    yield from walk_binding(each, wanted)
    else:
        yield node


def walk_bodies(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The lists of statements in a compound statement."""
    for name in _BODIES:
        yield getattr(node, name, [])
    for handler in getattr(node, "handlers", []):
        yield handler.body


def _find_lines(node: ast.stmt, names: set[str]) -> Iterator[str]:
    wanted = list_bound_names(node) & names
    for each in walk_binding(node, wanted) if wanted else ():
        if isinstance(each, ast.Import | ast.ImportFrom):
            yield from map(ast.unparse, _split_import(each, wanted))


def _split_import(node: ast.Import | ast.ImportFrom, wanted: set[str]) -> Iterator[ast.Import | ast.ImportFrom]:
    """An import for each wanted name."""
    for alias in node.names:
        if (alias.asname or alias.name).partition(".")[0] in wanted:
            yield (
                ast.Import([alias])
                if isinstance(node, ast.Import)
                else ast.ImportFrom(node.module, [alias], node.level)
            )


def _keep_wanted(node: ast.stmt, names: set[str]) -> ast.stmt | None:
    """The statement with what binds wanted names alone, and what this needs of the same statement; None for nothing."""
    wanted = list_bound_names(node) & names
    while wanted:
        kept = _filter_statement(node, wanted)
        read = {n.id for n in ast.walk(kept) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        more = (read & list_bound_names(node)) - wanted
        if not more:
            return kept
        wanted |= more
    return None


def _filter_statement(node: ast.stmt, wanted: set[str]) -> ast.stmt:
    kept = copy.copy(node)
    if isinstance(kept, ast.Import | ast.ImportFrom):
        kept.names = [a for a in kept.names if (a.asname or a.name).partition(".")[0] in wanted]
    elif isinstance(kept, ast.If | ast.Try | ast.With):
        for name in _BODIES:
            binding = (each for each in getattr(kept, name, []) if list_bound_names(each) & wanted)
            body = [_filter_statement(each, wanted) for each in binding]
            if hasattr(kept, name):
                setattr(kept, name, body or ([ast.Pass()] if name == "body" else []))
    return kept
