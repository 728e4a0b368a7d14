"""What the statements of an answer and of its module define."""

from __future__ import annotations

import ast
import textwrap
from typing import Any

CAPTURE = "__bassline_capture__"
"""The decorator that hands the answer's function over."""


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


def name_module_file(name: str, is_package: bool) -> str:
    """The file that a module of the task seems to come from."""
    return f"/project/{name.replace('.', '/')}{'/__init__.py' if is_package else '.py'}"


def render_module(spec: dict[str, Any], tree: ast.Module) -> tuple[str, Any]:
    """The source of the module with an answer in it, and the definition in the answer. Raises SyntaxError for an answer
    that does not define the function."""
    definition = find_definition(tree, spec["function"])
    if definition is None:
        raise SyntaxError(f"the answer does not define {spec['function']}")
    return spec["before"] + "".join(_render_definitions(spec, tree, definition)) + spec["after"], definition


def _render_definitions(spec: dict[str, Any], tree: ast.Module, definition: Any) -> list[str]:
    """The definition with the capturing decorator alone, and methods that the answer adds."""
    definition.decorator_list = [ast.Name(CAPTURE, ast.Load())]
    parts = [definition]
    *path, _ = spec["function"].split(".")
    owner = find_class(tree, path) if path else None
    if owner is not None:
        for each in owner.body:
            new = isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) and each is not definition
            if new and each.name not in spec["siblings"]:
                parts.append(each)
    return [textwrap.indent(ast.unparse(part), spec["indent"]) + "\n" for part in parts]
