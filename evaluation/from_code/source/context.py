"""What a prompt shows before a function: what it names and its class, or the lines of its file.

The answer runs in the real module, so a prompt need not run alone: it has to let a reader write the body.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, get_args

from evaluation.effects import find_names_read
from evaluation.from_code.reasons import ExcludedError
from evaluation.from_code.source.find import ProjectFunction
from evaluation.from_code.source.imported import describe_imported
from evaluation.from_code.source.imports import format_imports, list_names_bound_at_runtime, walk_binding, walk_bodies
from evaluation.from_code.source.outline import (
    PromptPiece,
    find_first_line,
    outline_own_class,
    read_source,
    select_pieces,
    shorten_statement,
)
from evaluation.from_code.source.project import Project
from evaluation.source import is_type_checking, list_bound_names, parse

Context = Literal["function", "file", "repository"]
CONTEXTS: tuple[Context, ...] = get_args(Context)
MAX_CHARS = 16_000
"""Characters of a prompt; a small model reads them in a few seconds."""
MAX_IMPORTED_CHARS = 6_000
"""Characters of what a prompt shows of the project's other modules."""
_WORD = re.compile(r"[A-Za-z_]\w*")
_CODING = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*[-\w.]")
"""A comment in one of a file's first two lines that names its encoding (PEP 263), also by chance."""


def build_prompt(
    project: Project,
    function: ProjectFunction,
    context: Context = "function",
    before: int = 80,
    examples: Sequence[str] = (),
    called: Sequence[str] = (),
) -> str:
    """The prompt: what the context says, then the function's decorators, signature and docstring.

    `examples` and `called`, examples of what it calls, are shown as comments. A `function` context that does not fit
    is cut; a file is not. Raises ExcludedError for a prompt that is still too long.
    """
    head = format_example_comments(function, examples, called) + read_declaration(function)
    if context == "function":
        imported = describe_imported(project, function, min(MAX_IMPORTED_CHARS, (MAX_CHARS - len(head)) // 2))
        text = imported + _build_function_context(project, function, MAX_CHARS - len(head) - len(imported)) + head
    else:
        text = _build_file_context(function, before) + head
        if context == "repository":
            text = describe_imported(project, function, MAX_IMPORTED_CHARS, far=True) + text
    if any(map(_CODING.match, text.splitlines()[:2])):
        text = "#\n#\n" + text
    if len(text) > MAX_CHARS:
        raise ExcludedError(f"needs a prompt of more than {MAX_CHARS} characters")
    return text


def format_example_comments(function: ProjectFunction, examples: Sequence[str], called: Sequence[str] = ()) -> str:
    """The examples as comments before the function, "" where there are none."""
    lines = [*(("What it calls, for example:", *called) if called else ())]
    lines += ("For example:", *examples) if examples else ()
    return "".join(f"{function.indent}# {line}\n" for line in lines)


def build_frame(function: ProjectFunction) -> str:
    """The shortest text in which the function's body stands where it stands in its file: classes and conditions around
    it, and its signature."""
    return "".join(each.text for each in _list_headers(function)) + read_declaration(function)


def read_declaration(function: ProjectFunction) -> str:
    """Decorators, signature and docstring, as in the file."""
    return "".join(function.module.lines[function.first_line - 1 : function.solution_line - 1])


def read_solution(function: ProjectFunction) -> str:
    """The function's body as in the file."""
    text = "".join(function.module.lines[function.solution_line - 1 : function.node.end_lineno])
    return text if text.endswith("\n") else text + "\n"


def _find_enclosing(function: ProjectFunction) -> list[tuple[ast.stmt, str]]:
    """The classes and compound statements around a function, each with a line that opens a block like it: `if True:`
    for `try` and `with`, `if not (...):` for `else`."""
    found: list[tuple[ast.stmt, str]] = []
    body = function.module.tree.body
    while True:
        for node in body:
            if node is function.node:
                return found
            if node.lineno <= function.node.lineno <= (node.end_lineno or 0):
                break
        else:
            return found
        found.append((node, _format_header(node, function)))
        body = next(part for part in walk_bodies(node) if any(_contains(each, function) for each in part))


def _format_header(node: ast.stmt, function: ProjectFunction) -> str:
    if isinstance(node, ast.ClassDef):
        bases = [*map(ast.unparse, node.bases), *(f"{k.arg}={ast.unparse(k.value)}" for k in node.keywords if k.arg)]
        return f"class {node.name}({', '.join(bases)}):" if bases else f"class {node.name}:"
    if isinstance(node, ast.If):
        test = ast.unparse(node.test)
        return f"if {test}:" if any(_contains(each, function) for each in node.body) else f"if not ({test}):"
    return "if True:"


def _contains(node: ast.stmt, function: ProjectFunction) -> bool:
    return any(inner is function.node for inner in ast.walk(node))


def _list_headers(function: ProjectFunction, project: Project | None = None) -> Iterator[PromptPiece]:
    """The lines that open what is around a function; with a project, what its classes hold too."""
    for node, line in _find_enclosing(function):
        yield PromptPiece(f"{function.module.get_indent(node.lineno)}{line}\n")
        if project is not None and isinstance(node, ast.ClassDef):
            yield from outline_own_class(project, function.module, node, function)


def _build_function_context(project: Project, function: ProjectFunction, room: int) -> str:
    """The imports that a function and its class use, the module's helpers, classes and constants that it names, and its
    class: shortened, and in full where room is left. What the function names comes first, then the nearest in the
    file; what does not fit is left out."""
    module = function.module
    names = _find_names(function.node)
    for node, _line in _find_enclosing(function):
        if isinstance(node, ast.ClassDef):
            names |= {n.id for base in node.bases for n in ast.walk(base) if isinstance(n, ast.Name)}
            names |= {n.id for d in node.decorator_list for n in ast.walk(d) if isinstance(n, ast.Name)}
            for each in node.body:
                if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                    names |= find_names_read(each)
    pieces = [*_find_globals(function, names), *_list_headers(function, project)]
    imports = format_imports(module, _add_words(names, (piece.full or piece.text for piece in pieces)))
    kept = select_pieces(pieces, function, names, room - len(imports))
    text = format_imports(module, _add_words(names, (piece.text for piece in kept)))
    for block in (piece.text for piece in kept if piece.is_global):
        text += ("\n\n" if text and block.startswith(("def ", "class ", "@", "async ")) else "") + f"{block}\n"
    text += "\n\n" if text else ""
    return text + "".join(piece.text for piece in kept if not piece.is_global)


def _find_globals(function: ProjectFunction, names: set[str]) -> Iterator[PromptPiece]:
    """The module's statements beside imports that give one of these names."""
    module = function.module
    outer = {id(node) for node, _line in _find_enclosing(function)} | {id(function.node)}
    for node in module.tree.body:
        wanted = list_names_bound_at_runtime(node) & names
        if not wanted or id(node) in outer:
            continue
        for each in walk_binding(node, wanted):
            if isinstance(each, ast.Import | ast.ImportFrom):
                continue
            if each.col_offset == 0:
                yield PromptPiece(shorten_statement(module, each), each, read_source(module, each), is_global=True)
            else:
                yield PromptPiece(ast.unparse(each), each, is_global=True)


def _add_words(names: set[str], texts: Iterable[str]) -> set[str]:
    return names.union(*map(_WORD.findall, texts))


def _find_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The names that a function reads, also in quoted annotations."""
    names = find_names_read(function)
    annotations = [node.annotation for node in ast.walk(function.args) if isinstance(node, ast.arg)]
    for annotation in (*annotations, function.returns):
        for node in ast.walk(annotation) if annotation is not None else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                tree = parse(node.value)
                names |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} if tree else set()
    return names


def _build_file_context(function: ProjectFunction, before: int) -> str:
    """The file's imports, then the whole statements that start in the `before` lines before the function; statements of
    its class after the lines that open it."""
    module, around = function.module, _find_enclosing(function)
    first = max(1, function.first_line - before)
    starts = [(find_first_line(node), 0) for node in module.tree.body]
    for depth, (node, _line) in enumerate(around, start=1):
        starts += [(find_first_line(each), depth) for body in walk_bodies(node) for each in body]
    in_range = [start for start in starts if first <= start[0] <= function.first_line]
    start, depth = min(in_range, default=(function.first_line, len(around)))
    opened = "".join(f"{module.get_indent(node.lineno)}{line}\n" for node, line in around[:depth])
    imports = [
        "".join(module.lines[node.lineno - 1 : node.end_lineno])
        for node in module.tree.body
        if (isinstance(node, ast.Import | ast.ImportFrom) or is_type_checking(node) or _sets_flag(node))
        and node.lineno < start
    ]
    gap = "\n\n" if imports else ""
    return "".join(imports) + gap + opened + "".join(module.lines[start - 1 : function.first_line - 1])


def _sets_flag(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and "TYPE_CHECKING" in list_bound_names(node)
