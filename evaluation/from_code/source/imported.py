"""What a function uses of the project's other modules: declarations and docstrings, as comments of a prompt."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from evaluation.effects import find_names_read
from evaluation.from_code.source.attributes import STANDARD_ATTRIBUTE_NAMES
from evaluation.from_code.source.closure import resolve_import
from evaluation.from_code.source.find import ProjectFunction
from evaluation.from_code.source.outline import shorten_class, shorten_statement
from evaluation.from_code.source.project import Module, Project
from evaluation.source import is_self, list_bound_names

_MAX_IMPORTS = 4
"""Modules to search for a name's definition: those that pass it on, and the one that defines it."""
_MAX_CLASSES = 2
"""Classes that have a method; of more nobody can say which one is meant."""
_MAX_CLASS_CHARS = 1_200


def describe_imported(project: Project, function: ProjectFunction, room: int, far: bool = False) -> str:
    """What a function names of other modules and the methods it calls of their classes, as comments, at most `room`
    characters; with `far`, after these what else its file imports from the project."""
    found: dict[str, None] = {}
    shown: set[tuple[str, str]] = set()
    for module, node in _find_statements(project, function, far):
        name = next(iter(sorted(list_bound_names(node))), "")
        if (module.name, name) not in shown:
            shown.add((module.name, name))
            found[f"from {module.name}:\n{_outline(module, node, function)}"] = None
    text = ""
    for each in found:
        block = "".join(f"# {line}".rstrip() + "\n" for line in each.splitlines()) + "\n"
        if len(text) + len(block) <= room:
            text += block
    return text


def _outline(module: Module, node: ast.stmt, function: ProjectFunction) -> str:
    text = shorten_statement(module, node)
    if isinstance(node, ast.ClassDef) and len(text) > _MAX_CLASS_CHARS:
        return shorten_class(module, node, {"__init__", "__new__", *_list_attributes(function.node)})
    return text


def _find_statements(project: Project, function: ProjectFunction, far: bool) -> Iterator[tuple[Module, ast.stmt]]:
    module, named = function.module, find_names_read(function.node)
    imported = dict(_find_imports(project, module))
    for name, place in imported.items():
        if name in named and isinstance(place, tuple):
            yield place
    for node in ast.walk(function.node):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used = imported.get(node.value.id)
            if isinstance(used, Module) and (found := _find_definition(project, used, node.attr)) is not None:
                yield found
    yield from _find_called_classes(project, function)
    if far:
        yield from (place for name, place in imported.items() if name not in named and isinstance(place, tuple))


def _find_imports(project: Project, module: Module) -> Iterator[tuple[str, Module | tuple[Module, ast.stmt]]]:
    """The names that a module imports from the project, with the module or the statement that they stand for."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in project.modules and (alias.asname or "." not in alias.name):
                    yield alias.asname or alias.name, project.modules[alias.name]
        elif isinstance(node, ast.ImportFrom):
            origin = resolve_import(module, node)
            for alias in node.names:
                whole = project.modules.get(f"{origin}.{alias.name}")
                source = project.modules.get(origin)
                found = None if source is None else _find_definition(project, source, alias.name)
                if found is not None:
                    yield alias.asname or alias.name, found
                elif whole is not None:
                    yield alias.asname or alias.name, whole


def _find_definition(project: Project, module: Module, name: str) -> tuple[Module, ast.stmt] | None:
    """The statement that gives a module's name its value, in the module that it comes from."""
    for _ in range(_MAX_IMPORTS):
        node = next((each for each in module.tree.body if name in list_bound_names(each)), None)
        if not isinstance(node, ast.ImportFrom):
            return None if node is None or isinstance(node, ast.Import) else (module, node)
        origin = project.modules.get(resolve_import(module, node))
        if origin is None:
            return None
        module = origin
        name = next(alias.name for alias in node.names if (alias.asname or alias.name) == name)
    return None


def _find_called_classes(project: Project, function: ProjectFunction) -> Iterator[tuple[Module, ast.stmt]]:
    """The classes of other modules whose methods a function calls, where few classes have these; methods of its own
    object too, which may be of a class that derives from its own."""
    functions = [node.func for node in ast.walk(function.node) if isinstance(node, ast.Call)]
    called = {each.attr: each.value for each in functions if isinstance(each, ast.Attribute)}
    own = {getattr(each, "name", "") for each in function.owner.body} if function.owner else set()
    for name in sorted(called):
        if name in (own if is_self(called[name]) else STANDARD_ATTRIBUTE_NAMES):
            continue
        owners = [
            (module, node) for module in project.modules.values() for node in module.tree.body
            if isinstance(node, ast.ClassDef) and any(getattr(each, "name", "") == name for each in node.body)
        ]  # fmt: skip
        if 0 < len(owners) <= _MAX_CLASSES:
            yield from ((module, node) for module, node in owners if module is not function.module)


def _list_attributes(node: ast.AST) -> set[str]:
    return {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
