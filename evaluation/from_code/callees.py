"""What the functions that another one calls raise, and the texts that they compare their parameters with.

They are those of its module with the called name: which class an object has is not known.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache

from evaluation.source import FunctionNode, get_called_name

_KEPT_MODULES = 8
"""A module is read once for all of its functions."""
_CATCH_ALL = {"Exception", "BaseException"}
_NOT_ASKED_FOR = {"NotImplementedError", "AssertionError", "StopIteration", "SystemExit", "KeyboardInterrupt"}
"""Exceptions that no caller is meant to see."""


def list_callee_exceptions(function: FunctionNode, module: ast.Module) -> list[str]:
    """The names of exceptions that reach a function from those that it calls, and those that these call, by name."""
    callees = _list_own_callees(function) - {function.name}
    return sorted(_keep_uncaught(function, callees, _find_escaping_exceptions(module)) - _NOT_ASKED_FOR)


def list_texts_compared_by_callees(function: FunctionNode, module: ast.Module) -> list[str]:
    """The texts that functions which a function calls compare their parameters with."""
    names = {get_called_name(each) for each in ast.walk(function) if isinstance(each, ast.Call)}
    callees = (each for each in _list_functions(module) if each.name in names and each.lineno != function.lineno)
    return sorted({text for each in callees for text in _list_compared_texts(each)})


@lru_cache(maxsize=_KEPT_MODULES)
def _list_functions(module: ast.Module) -> list[FunctionNode]:
    return [each for each in ast.walk(module) if isinstance(each, FunctionNode)]


@lru_cache(maxsize=_KEPT_MODULES)
def _find_escaping_exceptions(module: ast.Module) -> Mapping[str, Collection[str]]:
    """The names of the exceptions that the functions of each name raise, or let pass from those that they call."""
    functions = _list_functions(module)
    escaping: dict[str, set[str]] = {each.name: set() for each in functions}
    for each in functions:
        escaping[each.name] |= set(_list_raised_names(each))
    callees = [(each, _list_own_callees(each)) for each in functions]
    has_changed = True
    while has_changed:
        has_changed = False
        for each, names in callees:
            found = _keep_uncaught(each, names, escaping)
            if not found <= escaping[each.name]:
                escaping[each.name] |= found
                has_changed = True
    return escaping


def _keep_uncaught(
    function: FunctionNode, callees: Collection[str], escaping: Mapping[str, Collection[str]]
) -> set[str]:
    """What escapes from these callees, without what a handler of the function names."""
    handlers = [each for each in ast.walk(function) if isinstance(each, ast.ExceptHandler)]
    handled = {name.id for each in handlers if each.type for name in ast.walk(each.type) if isinstance(name, ast.Name)}
    if handled & _CATCH_ALL or any(each.type is None for each in handlers):
        return set()
    return {name for callee in callees for name in escaping.get(callee, ())} - handled


def _list_own_callees(function: FunctionNode) -> set[str]:
    """The names that are called bare or on `self`, `cls` and `super()`: others may belong to a list or dict."""
    names: set[str] = set()
    for each in ast.walk(function):
        match each:
            case (
                ast.Call(func=ast.Name(id=name))
                | ast.Call(func=ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name))
                | ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name))
            ):
                names.add(name)
    return names


def _list_raised_names(function: FunctionNode) -> Iterator[str]:
    for each in ast.walk(function):
        match each:
            case ast.Raise(exc=ast.Call(func=ast.Name(id=name)) | ast.Name(id=name)) if name[:1].isupper():
                yield name


def _list_compared_texts(function: FunctionNode) -> Iterator[str]:
    parameters = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
    for each in ast.walk(function):
        if isinstance(each, ast.Compare) and isinstance(each.left, ast.Name) and each.left.id in parameters:
            constants = (part.value for part in ast.walk(each) if isinstance(part, ast.Constant))
            yield from (value for value in constants if isinstance(value, str))
