"""What the statements of an answer and of its module define."""

from __future__ import annotations

import ast
from typing import Any


def find_definition(tree: ast.Module, function: str) -> Any:
    """The last definition of the function at its place in classes, else the last of its name anywhere."""
    *path, name = function.split(".")
    owner = find_class(tree, path)
    places = [owner, tree] if owner is not None else [tree]
    for place in places:
        functions = (node for node in ast.walk(place) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
        found = [node for node in functions if node.name == name]
        if found:
            direct = [node for node in found if node in place.body]
            return (direct or found)[-1]
    return None


def list_bound_names(node: ast.AST) -> set[str]:
    """The names that a statement gives its module, under conditions too.

    `evaluation.source.list_bound_names` does nearly the same, but the sandbox has only the modules of this folder and
    of the recorder.
    """
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    if isinstance(node, (ast.If, ast.Try, ast.With, ast.ExceptHandler)):
        return {name for each in ast.iter_child_nodes(node) for name in list_bound_names(each)}
    return set()


def is_future(node: ast.stmt) -> bool:
    """Whether a statement may only stand at the top of a file."""
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def is_lazy(node: ast.stmt) -> bool:
    """Whether a statement makes the annotations of its file lazy."""
    return is_future(node) and any(alias.name == "annotations" for alias in node.names)  # type: ignore[attr-defined]


def is_type_checking(node: ast.stmt) -> bool:
    """Whether a statement is `if TYPE_CHECKING:`, as `evaluation.source.is_type_checking` says."""
    return isinstance(node, ast.If) and ast.unparse(node.test).rpartition(".")[2] == "TYPE_CHECKING"


def find_class(tree: Any, path: list[str]) -> Any:
    """The class at this path, None where there is none; without a path the module."""
    for part in path:
        found = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == part]
        if not found:
            return None
        tree = found[-1]
    return tree
