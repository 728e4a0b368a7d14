"""Puts an answer into its module: the real file with one function replaced.

The answer is a program, as extraction made it of a model's text: it defines the function, alone or in its class, and
repeats parts of the prompt. What the file has already is left out, and so is another docstring than the file's; new
imports and helpers come along. A statement that binds no name, and all after it but imports, move to the end, where
every name of the module exists.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from textwrap import indent

from evaluation.source import (
    FunctionNode,
    compares_module_name,
    is_type_checking,
    list_bound_names,
    list_defined_names,
    list_runtime_names,
    parse,
)
from evaluation.trimming import get_line_range

_UNPARSED = -1
"""The column of a function that stands in no source."""


@dataclass(frozen=True, slots=True)
class Spliced:
    """The module with the answer, and the statements that came from the answer."""

    source: str
    answer: tuple[ast.stmt, ...]


def splice(source: str, qualified: str, line: int, program: str) -> Spliced | None:
    """The module `source`, whose function `qualified` at `line` is replaced by the one that the program defines.

    None where the program does not define it. Raises ValueError where the module has no such function.
    """
    tree, answer = parse(source), parse(program)
    name = qualified.rpartition(".")[2]
    functions = (node for node in ast.walk(tree or ast.Module([], [])) if isinstance(node, FunctionNode))
    original = next((node for node in functions if node.name == name and node.lineno == line), None)
    if tree is None or original is None:
        raise ValueError(f"the file has no function {qualified} at line {line}")
    found = None if answer is None else _find_definition(answer, qualified)
    if answer is None or found is None:
        return None
    owner, function = found
    new = _restore_docstring(_unwrap_function(function), original)
    lines = source.splitlines(keepends=True)
    margin = " " * original.col_offset
    helpers: list[ast.stmt] = []
    if isinstance(owner, ast.ClassDef):
        known = _list_class_names(tree, original)
        helpers = [node for node in owner.body if node is not function and list_bound_names(node) - known]
    others = _place_other_statements(tree, answer, owner or function)
    around = next(node for node in tree.body if (node.end_lineno or 0) >= original.lineno)
    holder = _get_line_indices(around)  # the function, or the statement around it
    replaced = _get_line_indices(original)
    whole = [
        *lines[: holder.start], *_render_statements(others.before), *lines[holder.start : replaced.start],
        "\n".join([
            _render_function(program, new, original, margin, lines),
            *(indent(text, margin) for text in _render_statements(helpers)),
        ]),
        *_end_last_line(lines[replaced.stop : holder.stop]), *_render_statements(others.after),
        *_end_last_line(lines[holder.stop :]), *_render_statements(others.last),
    ]  # fmt: skip
    return Spliced("".join(whole), (new, *helpers, *others.before, *others.after, *others.last))


def _get_line_indices(node: ast.stmt) -> range:
    """The indices of a statement's lines in the list of all lines."""
    numbers = get_line_range(node)
    return range(numbers.start - 1, numbers.stop - 1)


def _render_statements(nodes: Sequence[ast.stmt]) -> list[str]:
    return [f"{ast.unparse(node)}\n" for node in nodes]


def _end_last_line(lines: Sequence[str]) -> list[str]:
    """The lines, with a newline after the last."""
    return [*lines[:-1], lines[-1].rstrip("\n") + "\n"] if lines else []


def iterate_functions(source: str) -> Iterator[tuple[str, FunctionNode]]:
    """The functions of a module, with the names of their classes before their own."""

    def iterate_functions_inside(node: ast.stmt | ast.Module, prefix: str) -> Iterator[tuple[str, FunctionNode]]:
        for each in _iterate_inside(node):
            if isinstance(each, FunctionNode):
                yield prefix + each.name, each
            elif isinstance(each, ast.ClassDef):
                yield from iterate_functions_inside(each, f"{prefix}{each.name}.")

    tree = parse(source)
    yield from () if tree is None else iterate_functions_inside(tree, "")


def _find_definition(answer: ast.Module, qualified: str) -> tuple[ast.stmt | None, FunctionNode] | None:
    """(the statement of its class, the function), the last of that name; a bare function stands for a method too."""
    *owners, name = qualified.split(".")
    bare = [each for each in _iterate_inside(answer) if isinstance(each, FunctionNode) and each.name == name]
    places: list[ast.stmt | ast.Module] = [answer]
    for owner in owners:
        inside = [each for place in places for each in _iterate_inside(place)]
        places = [each for each in inside if isinstance(each, ast.ClassDef) and each.name == owner]
    for place in reversed(places):
        functions = [each for each in _iterate_inside(place) if isinstance(each, FunctionNode) and each.name == name]
        if functions and not (owners and _is_stub(functions[-1]) and bare):
            return (place if isinstance(place, ast.stmt) else None), functions[-1]
    return (None, bare[-1]) if bare else None


def _is_stub(function: FunctionNode) -> bool:
    """Whether a method has nothing but its docstring or `...`, as in the prompt: an answer may stand beside its
    class."""
    return all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in function.body)


def _iterate_inside(node: ast.stmt | ast.Module) -> Iterator[ast.stmt]:
    """The statements of a body, those under conditions too."""
    for name in ("body", "orelse", "finalbody"):
        for each in getattr(node, name, []):
            yield each
            if isinstance(each, ast.If | ast.Try | ast.With):
                yield from _iterate_inside(each)


def _unwrap_function(function: FunctionNode) -> FunctionNode:
    """The function, or the one that it holds and nothing else: a model that repeats the signature of a method."""
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    if len(body) == 1 and isinstance(body[0], FunctionNode) and body[0].name == function.name:
        return body[0]
    return function


def _restore_docstring(function: FunctionNode, original: FunctionNode) -> FunctionNode:
    """The function with the original's docstring: its examples may be tests, which no answer may change or lose."""
    if ast.get_docstring(function) == ast.get_docstring(original):
        return function
    docstring = original.body[:1] if ast.get_docstring(original) is not None else []
    rest = function.body[1:] if ast.get_docstring(function) is not None else function.body
    content = {**dict(ast.iter_fields(function)), "body": [*docstring, *rest] or [ast.Pass()]}
    return type(function)(**content, lineno=function.lineno, col_offset=_UNPARSED)


def _render_function(program: str, new: FunctionNode, original: FunctionNode, margin: str, lines: Sequence[str]) -> str:
    """The source of the answer's function at the margin; the original's decorators where it repeats none."""
    decorators = "" if new.decorator_list else "".join(lines[get_line_range(original).start - 1 : original.lineno - 1])
    if new.col_offset == original.col_offset:
        own = program.splitlines(keepends=True)[get_line_range(new).start - 1 : new.end_lineno]
        return decorators + "".join(_end_last_line(own))
    return decorators + indent(ast.unparse(new), margin) + "\n"


def _list_class_names(tree: ast.Module, original: FunctionNode) -> set[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and original in list(_iterate_inside(node)):
            return {name for each in node.body for name in list_bound_names(each)}
    return set()


@dataclass(frozen=True, slots=True)
class _OtherStatements:
    """Statements of an answer beside its function: those before and after the module's statement that holds the
    function, and those at the module's end."""

    before: list[ast.stmt] = field(default_factory=list)
    after: list[ast.stmt] = field(default_factory=list)
    last: list[ast.stmt] = field(default_factory=list)


def _place_other_statements(tree: ast.Module, answer: ast.Module, entry: ast.stmt) -> _OtherStatements:
    """The answer's statements beside `entry`, without what the module has."""
    known, own = list_runtime_names(tree), {ast.dump(node) for node in _iterate_inside(tree)}
    checked = list_defined_names(tree) - known  # by type checkers alone
    others = _OtherStatements()
    is_after_entry = False
    for node in answer.body:
        names, is_import = list_bound_names(node), isinstance(node, ast.Import | ast.ImportFrom)
        if entry in ast.walk(node):
            is_after_entry = True
        elif names and (names <= known or (isinstance(node, ast.ImportFrom) and node.module == "__future__")):
            continue
        elif names and names <= known | checked and (is_import or is_type_checking(node)):
            if not is_type_checking(node):
                others.before.append(_import_if_possible(node))
        elif names:
            # The statements at the end have effects: what follows them in the answer follows them here.
            have_effects_begun = bool(others.last) and not is_import
            beside_entry = others.after if is_after_entry else others.before
            (others.last if have_effects_begun else beside_entry).append(node)
        elif not _is_droppable(node) and ast.dump(node) not in own:
            others.last.append(node)
    return others


def _import_if_possible(node: ast.stmt) -> ast.stmt:
    """A type-checking import of the module with ImportError ignored: only annotations need its names."""
    handler = ast.ExceptHandler(ast.Name("ImportError", ast.Load()), None, [ast.Pass()])
    return ast.copy_location(ast.Try([node], [handler], [], []), node)


def _is_droppable(node: ast.stmt) -> bool:
    """Whether a statement is a text, or for a script."""
    if isinstance(node, ast.If):
        return compares_module_name(node.test)
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
