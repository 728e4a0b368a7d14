"""Instruments the chosen functions when their modules are imported.

The module's source is changed before it is compiled: a function reports its arguments first, and its result or
exception last. Functions keep their identity, their frames and their line numbers. A wrapper around them would not do:
it would add a frame to each call, which functions that look at their caller, warnings and the limit of recursion see.
"""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import itertools
import os
import random
import sys
from typing import Any

from . import calls, seen

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
    """Notes and records the functions of `plan["functions"]`: {path of a file: [[line, key, how], ...]}, where `how` is
    a key of _TEMPLATES, "" for a function that is not recorded."""
    calls.start_recording(plan["folder"], plan["repeated"])
    seen.start_noting(plan["seen"], plan["project"], _names_at_end)
    _seed_generators()
    setattr(builtins, AT_END, _NamesAtShutdown(_names_at_end))
    sys.meta_path.insert(0, _Finder(plan["functions"]))


def _seed_generators() -> None:
    """Gives generators without a seed the next number as one, so that tests draw the same numbers in every recording.
    What the operating system draws is left alone."""
    numbers, seed = itertools.count(), random.Random.seed

    def seed_with_number(self: random.Random, a: Any = None, version: int = 2) -> None:
        seed(self, next(numbers) if a is None else a, version)

    random.Random.seed = seed_with_number  # type: ignore[method-assign]
    random.seed = random._inst.seed
    random.seed()


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


class _Finder:
    """Finds modules as the import system does, and replaces the loader of those with functions to record or to count.
    Registers the plugin for pytest before `_pytest` is imported."""

    def __init__(self, functions: dict[str, Any]) -> None:
        self._functions = functions

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name == "_pytest":
            plugins = [os.environ.get("PYTEST_PLUGINS", ""), f"{__package__}.time_limit"]
            os.environ["PYTEST_PLUGINS"] = ",".join(filter(None, plugins))
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or type(spec.loader) is not importlib.machinery.SourceFileLoader or not spec.origin:
            return None
        path = os.path.realpath(spec.origin)
        if path not in self._functions:
            return None
        spec.loader = _Loader(name, spec.origin, self._functions[path])
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the instrumented source; neither reads nor writes cached bytecode."""

    def __init__(self, name: str, path: str, functions: list[Any]) -> None:
        super().__init__(name, path)
        self._functions = functions

    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        data = self.get_data(path)
        try:
            return compile(self._instrument(ast.parse(data, path)), path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError):
            return compile(data, path, "exec", dont_inherit=True)

    def _instrument(self, tree: ast.Module) -> ast.Module:
        """The tree of a module whose functions report and count their calls; changed in place."""
        functions = {line: (key, how) for line, key, how in self._functions}
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.lineno in functions:
                key, how = functions[node.lineno]
                docstring = node.body[:1] if ast.get_docstring(node, clean=False) is not None else []
                body = node.body[len(docstring) :]
                count = _parse_at((body or docstring)[0], f"{seen.install_counter(key)}()")
                if how and body:
                    body = _report_calls(node, body, key, how)
                node.body = [*docstring, *count, *body]
        return tree


_START = """
{call} = {entry}
if {call} is not None:
    {call} = {call}({named}, {rest}, {only}, {extra})
"""
_TEMPLATES = {
    "inputs": _START + """
if {call} is not None:
    {call}.record_generator()
""",
    "calls": _START + """
try:
    if {call} is not None:
        {call}.record_return(None)
except BaseException as __bassline_error__:
    if {call} is not None:
        {call}.record_exception(__bassline_error__)
    raise
""",
}  # fmt: skip
"""What a recorded function starts with; the body of one whose results are recorded stands in the `try`. Those of a
generator are not: to read its items here would change what its caller sees."""
_RETURN = f"""
{RESULT} = None
if {CALL} is not None:
    {CALL}.record_return({RESULT})
return {RESULT}
"""


def _report_calls(function: Any, body: list[ast.stmt], key: str, how: str) -> list[ast.stmt]:
    """The body of a function that reports its calls."""
    arguments = function.args
    named, only = (
        "({})".format("".join(f"({a.arg!r}, {a.arg})," for a in names))
        for names in (arguments.posonlyargs + arguments.args, arguments.kwonlyargs)
    )
    rest = arguments.vararg.arg if arguments.vararg else "()"
    extra = arguments.kwarg.arg if arguments.kwarg else "{}"
    text = _TEMPLATES[how].format(call=CALL, entry=_install_entry(key), named=named, rest=rest, only=only, extra=extra)
    start = _parse_at(body[0], text)
    attempt = start[-1]
    if not isinstance(attempt, ast.Try):
        return [*start, *body]
    attempt.body = [*_Returns().visit_all(body), *attempt.body]
    return start


class _Returns(ast.NodeTransformer):
    """Lets each `return` of the function itself report its value; the returns of nested functions stay."""

    def visit_all(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Let the returns in these statements report; return the new statements."""
        module = ast.Module(body, [])
        self.generic_visit(module)
        return module.body

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        result, *report = _parse_at(node, _RETURN)
        result.value = node.value or result.value  # type: ignore[attr-defined]
        return [result, *report]

    def _leave(self, node: ast.AST) -> ast.AST:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _leave  # noqa: N815


def _parse_at(place: ast.stmt, text: str) -> list[ast.stmt]:
    """The statements of a text, all on the lines of the statement `place`."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        ast.copy_location(node, place)
    return tree.body
