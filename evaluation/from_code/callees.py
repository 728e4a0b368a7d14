"""What the functions that another one calls raise, and the texts that they compare their parameters with.

They are those of its module with the called name: which class an object has is not known.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_NOT_ASKED_FOR = {"NotImplementedError", "AssertionError", "StopIteration", "SystemExit", "KeyboardInterrupt"}
"""Exceptions that no caller is meant to see."""


def list_callee_exceptions(function: FunctionNode, module: ast.Module) -> list[str]:
    """The names of exceptions that reach a function from those that it calls, and those that these call, by name."""
    by_name = _group_functions(module)
    found = _find_arriving_exceptions(function, by_name, {function.name})
    return sorted(found - _NOT_ASKED_FOR)


def list_texts_compared_by_callees(function: FunctionNode, module: ast.Module) -> list[str]:
    """The texts that functions which a function calls compare their parameters with."""
    by_name = _group_functions(module)
    names = {get_called_name(each) for each in ast.walk(function) if isinstance(each, ast.Call)}
    callees = [each for name in sorted(names) for each in by_name.get(name, ()) if each is not function]
    return sorted({text for each in callees for text in _list_compared_texts(each)})


def get_called_name(call: ast.Call) -> str:
    """The name of the called function or method, "" where it has none."""
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def _group_functions(module: ast.Module) -> dict[str, list[FunctionNode]]:
    by_name: dict[str, list[FunctionNode]] = {}
    for each in ast.walk(module):
        if isinstance(each, FunctionNode):
            by_name.setdefault(each.name, []).append(each)
    return by_name


def _list_own_callees(function: FunctionNode) -> list[str]:
    """The names that are called bare or on `self`, `cls` and `super()`: others may belong to a list or dict."""
    names: set[str] = set()
    for each in ast.walk(function):
        match each:
            case ast.Call(func=ast.Name(id=name)):
                names.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name)):
                names.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name)):
                names.add(name)
    return sorted(names)


def _find_arriving_exceptions(
    function: FunctionNode, by_name: dict[str, list[FunctionNode]], visited: set[str]
) -> set[str]:
    """What its callees raise, without what it names in a handler; `visited` are the names that were followed."""
    arriving: set[str] = set()
    for name in _list_own_callees(function):
        if name not in visited:
            visited.add(name)
            for callee in by_name.get(name, ()):
                arriving |= set(_list_raised_names(callee)) | _find_arriving_exceptions(callee, by_name, visited)
    return arriving - set(_list_handled_names(function))


def _list_raised_names(function: FunctionNode) -> Iterator[str]:
    for each in ast.walk(function):
        match each:
            case ast.Raise(exc=ast.Call(func=ast.Name(id=name)) | ast.Name(id=name)) if name[:1].isupper():
                yield name


def _list_handled_names(function: FunctionNode) -> Iterator[str]:
    handlers = (each for each in ast.walk(function) if isinstance(each, ast.ExceptHandler) and each.type)
    yield from (name.id for each in handlers for name in ast.walk(each.type or each) if isinstance(name, ast.Name))


def _list_compared_texts(function: FunctionNode) -> Iterator[str]:
    parameters = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
    for each in ast.walk(function):
        if isinstance(each, ast.Compare) and isinstance(each.left, ast.Name) and each.left.id in parameters:
            constants = (part.value for part in ast.walk(each) if isinstance(part, ast.Constant))
            yield from (value for value in constants if isinstance(value, str))
