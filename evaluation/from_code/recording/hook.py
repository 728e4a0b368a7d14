"""Instruments the chosen functions when their modules are imported.

The module's source is changed before it is compiled: a function reports its arguments first, and its result or
exception last. Functions keep their identity, their frames and their line numbers. A wrapper around them would not do:
it would add a frame to each call, which functions that look at their caller, warnings and the limit of recursion see.
"""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

from . import calls, seeds, seen

ENTER = "__bassline_enter_%d__"
CALL = "__bassline_call__"
RESULT = "__bassline_result__"
AT_END = "__bassline_at_end__"


class _NamesAtShutdown:
    """Puts these names back when Python clears `builtins`.

    Python takes from `builtins` what it did not have at the start, then ends the objects that are left. Their
    finalizers may call instrumented functions, which need their names; nothing is recorded any more.
    """

    def __init__(self, names: dict[str, Any]) -> None:
        self._builtins, self._names = vars(builtins), names

    def __del__(self) -> None:
        self._builtins.update(self._names)


def install_recorder(plan: dict[str, Any]) -> None:
    """Records the functions of `plan["targets"]`: {path of a file: [[name, line, key, inputs_only], ...]}."""
    calls.start_recording(plan["folder"], plan["repeated"])
    seen.start_noting(plan["seen"], plan["functions"], _names_at_end)
    seeds.seed_generators()
    setattr(builtins, AT_END, _NamesAtShutdown(_names_at_end))
    sys.meta_path.insert(0, _Finder(plan["targets"]))
    for module in list(sys.modules.values()):
        path = os.path.realpath(getattr(module, "__file__", None) or "")
        chosen = plan["targets"].get(path, [])
        if chosen or seen.is_noted(path):
            _replace_code(module, chosen)


_names_at_end: dict[str, Any] = {}
_names: dict[str, str] = {}
"""Names in `builtins` of entry hooks, by function key; a hook becomes None when later calls no longer count."""


def _install_entry(key: str) -> str:
    name = _names.get(key)
    if name is None:
        name = _names[key] = ENTER % len(_names)
        _names_at_end[name] = None
        setattr(builtins, name, calls.get_entry(key, lambda: setattr(builtins, name, None)))
    return name


def _replace_code(module: types.ModuleType, chosen: list[Any]) -> None:
    """Instruments functions of a module that is imported already, such as those that Python needs to start.

    The functions stay the same objects with other code, so everyone who imported them calls the new code.
    """
    path = str(module.__file__)
    with open(path, "rb") as file:
        tree = seen.add_counters(instrument_module(file.read(), path, chosen), path)
    code = compile(tree, path, "exec", dont_inherit=True)
    new = {(part.co_name, part.co_firstlineno): part for part in _iterate_codes(code)}
    for function in _iterate_functions(module):
        old = function.__code__
        other = new.get((old.co_name, old.co_firstlineno))
        is_own = function.__globals__ is vars(module)  # else it was imported from another one
        if is_own and other is not None and old.co_name != "<lambda>" and old.co_freevars == other.co_freevars:
            function.__code__ = other


def _iterate_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield part
            yield from _iterate_codes(part)


def _iterate_functions(owner: Any) -> Iterator[types.FunctionType]:
    """The functions of a module, and of its classes, below what decorates them."""
    for value in list(vars(owner).values()):
        if isinstance(value, type) and isinstance(owner, types.ModuleType) and value.__module__ == owner.__name__:
            yield from _iterate_functions(value)
        parts = (
            [getattr(value, name, None) for name in ("fget", "fset", "fdel")] if type(value) is property else [value]
        )
        for part in parts:
            bare = part.__func__ if isinstance(part, (staticmethod, classmethod)) else part
            function = getattr(bare, "__wrapped__", bare)
            if isinstance(function, types.FunctionType):
                yield function


class _Finder:
    """Finds modules as the import system does, and replaces the loader of those with functions to record or to count.
    Registers the plugin for pytest before `_pytest` is imported."""

    def __init__(self, targets: dict[str, Any]) -> None:
        self._targets = targets

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name == "_pytest":
            plugins = [os.environ.get("PYTEST_PLUGINS", ""), f"{__package__}.time_limit"]
            os.environ["PYTEST_PLUGINS"] = ",".join(filter(None, plugins))
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or type(spec.loader) is not importlib.machinery.SourceFileLoader or not spec.origin:
            return None
        path = os.path.realpath(spec.origin)
        chosen = self._targets.get(path, [])
        if not chosen and not seen.is_noted(path):
            return None
        spec.loader = _Loader(name, spec.origin, chosen)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the instrumented source; neither reads nor writes cached bytecode."""

    def __init__(self, name: str, path: str, chosen: list[Any]) -> None:
        super().__init__(name, path)
        self._chosen = chosen

    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        data = self.get_data(path)
        try:
            tree = seen.add_counters(instrument_module(data, path, self._chosen), path)
            return compile(tree, path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError):
            return compile(data, path, "exec", dont_inherit=True)


def instrument_module(data: bytes, path: str, chosen: list[Any]) -> ast.Module:
    """The tree of a module whose chosen functions report their calls."""
    tree = ast.parse(data, path)
    keys = {(name, line): (key, inputs_only) for name, line, key, inputs_only in chosen}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and (node.name, node.lineno) in keys:
            _instrument_function(node, *keys[node.name, node.lineno])
    return ast.fix_missing_locations(tree)


def _instrument_function(node: Any, key: str, inputs_only: bool) -> None:
    body = node.body
    docstring = body[:1] if ast.get_docstring(node, clean=False) is not None else []
    body = body[len(docstring) :]
    if not body:
        return
    place = body[0]
    arguments = node.args
    pairs = [
        _make_tuple([_make_pair(a.arg) for a in names])
        for names in (arguments.posonlyargs + arguments.args, arguments.kwonlyargs)
    ]
    rest = _make_name(arguments.vararg.arg) if arguments.vararg else _make_tuple([])
    extra = _make_name(arguments.kwarg.arg) if arguments.kwarg else ast.Dict([], [])
    enter = ast.Call(_make_name(CALL), [pairs[0], rest, pairs[1], extra], [])
    start: list[ast.stmt] = [
        ast.Assign([ast.Name(CALL, ast.Store())], _make_name(_install_entry(key))),
        _guard_recorded(ast.Assign([ast.Name(CALL, ast.Store())], enter)),
    ]
    if inputs_only:  # a generator: to read its items here would change what its caller sees
        start.append(
            _guard_recorded(ast.Expr(ast.Call(ast.Attribute(_make_name(CALL), "record_generator", ast.Load()), [], [])))
        )
        node.body = [*docstring, *(ast.copy_location(statement, place) for statement in start), *body]
        return
    report = _guard_recorded(_make_report("record_exception", _make_name("__bassline_error__")))
    handler = ast.ExceptHandler(_make_name("BaseException"), "__bassline_error__", [report, ast.Raise()])
    end = _guard_recorded(_make_report("record_return", ast.Constant(None)))
    returns = _Returns()
    inner = returns.visit_all(body)
    attempt = ast.Try([*inner, end], [handler], [], [])
    node.body = [*docstring, *(ast.copy_location(statement, place) for statement in (*start, attempt))]


class _Returns(ast.NodeTransformer):
    """Lets each `return` of the function itself report its value; the returns of nested functions stay."""

    def visit_all(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Let the returns in these statements report; return the new statements."""
        module = ast.Module(body, [])
        self.generic_visit(module)
        return module.body

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        value = node.value or ast.Constant(None)
        result = ast.Assign([ast.Name(RESULT, ast.Store())], value)
        report = _guard_recorded(_make_report("record_return", _make_name(RESULT)))
        return [ast.copy_location(each, node) for each in (result, report, ast.Return(_make_name(RESULT)))]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AsyncFunctionDef:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        return node


def _make_name(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _make_tuple(parts: list[ast.expr]) -> ast.expr:
    return ast.Tuple(parts, ast.Load())


def _make_pair(name: str) -> ast.expr:
    return _make_tuple([ast.Constant(name), _make_name(name)])


def _make_report(how: str, value: ast.expr) -> ast.stmt:
    return ast.Expr(ast.Call(ast.Attribute(_make_name(CALL), how, ast.Load()), [value], []))


def _guard_recorded(statement: ast.stmt) -> ast.stmt:
    return ast.If(ast.Compare(_make_name(CALL), [ast.IsNot()], [ast.Constant(None)]), [statement], [])
