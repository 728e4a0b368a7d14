"""Faults of readers who take arguments and results for something near to them: a text without spaces around it or in
lower case, items that are falsy or come twice left out, an empty value taken for none.

Such a reader writes right code around the wrong value, so no place of the original has the fault. It may also do no
harm: a text that is stripped anyway may be stripped before. So these faults count only where a call tells them apart.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping

from evaluation.from_code.oversights import MISREADING
from evaluation.source import FunctionNode, list_arguments, unparse

_ARGUMENTS = {
    "str": ("{0} = {0}.strip()", "{0} = {0}.lower()", "{0} = ' '.join({0}.split())"),
    "bytes": ("{0} = {0}.strip()", "{0} = {0}.rstrip(b'\\0')"),
    "list": ("{0} = [each for each in {0} if each]", "{0} = list(dict.fromkeys({0}))", "{0} = sorted({0})"),
    "tuple": ("{0} = tuple(each for each in {0} if each)",),
    "dict": ("{0} = {{key: each for key, each in {0}.items() if each}}",),
    "int": ("{0} = abs({0})",),
    "float": ("{0} = abs({0})",),
}
"""By the type of an argument: what a reader takes it for."""
_EMPTY = "if not {0}: return None"
_CAN_BE_EMPTY = {*_ARGUMENTS, "set", "frozenset"}
_RESULTS = {
    "str": ("return ({0}).strip()", "return ({0}).lower()"),
    "bytes": ("return ({0}).strip()",),
    "list": ("return [each for each in ({0}) if each]", "return list(dict.fromkeys({0}))"),
    "dict": ("return {{key: each for key, each in ({0}).items() if each}}",),
}
_FALSY = "return ({0}) or None"


def list_misreadings(function: FunctionNode, types: Mapping[str, str]) -> Iterator[tuple[str, int, str]]:
    """(operator, line, source) of the function with each misreading; `types` are those of parameters by their names,
    and that of the results as "return"."""
    for changed in (*_change_arguments(function, types), *_change_results(function, types.get("return"))):
        if (source := unparse(ast.fix_missing_locations(changed))) is not None:
            yield MISREADING, function.lineno, source


def _change_arguments(function: FunctionNode, types: Mapping[str, str]) -> Iterator[FunctionNode]:
    n_docstrings = int(ast.get_docstring(function, clean=False) is not None)
    for name in (each.arg for each in list_arguments(function.args)):
        for text in (*_ARGUMENTS.get(types[name], ()), _EMPTY) if types.get(name) in _CAN_BE_EMPTY else ():
            changed = copy.copy(function)
            first = ast.parse(text.format(name)).body
            changed.body = [*function.body[:n_docstrings], *first, *function.body[n_docstrings:]]
            yield changed


def _change_results(function: FunctionNode, result: str | None) -> Iterator[FunctionNode]:
    for text in (*_RESULTS.get(result, ()), _FALSY) if result else ():
        changed = copy.deepcopy(function)
        changed.body = [_ResultChanger(text).visit(each) for each in changed.body]
        yield changed


class _ResultChanger(ast.NodeTransformer):
    """Writes another expression around what statements return, and leaves functions within them as they are."""

    def __init__(self, text: str) -> None:
        self._text = text

    def visit_Return(self, node: ast.Return) -> ast.AST:
        """Return the changed value."""
        value = unparse(node.value) if node.value else None
        return node if value is None else ast.parse(self._text.format(value)).body[0]

    def _leave(self, node: ast.AST) -> ast.AST:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _leave  # noqa: N815
