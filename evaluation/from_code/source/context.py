"""What a prompt shows before a function: what it names, its class, or the file as far as it fits.

The answer runs in the real module, so a prompt need not run alone: it has to let a reader write the body.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

from evaluation.effects import names_read
from evaluation.from_code.reasons import ExcludedError
from evaluation.from_code.source.closure import absolute
from evaluation.from_code.source.find import Function
from evaluation.from_code.source.fitting import Piece, fitting
from evaluation.from_code.source.project import Module, Project
from evaluation.source import bound_names, parse

Context = Literal["function", "file", "repository"]
CONTEXTS: tuple[Context, ...] = get_args(Context)
MAX_CHARS = 16_000
"""Characters of a prompt; a small model reads them in a few seconds."""
MAX_OF_PROJECT = 6_000
"""Characters of what a prompt shows of other modules."""
_WHOLE = 12
"""Lines of a helper, constant or constructor that are shown whole."""
_WORD = re.compile(r"[A-Za-z_]\w*")


def prompt_of(
    project: Project, function: Function, context: Context = "function", before: int = 80, examples: Sequence[str] = ()
) -> str:
    """The prompt: what the context says, then the function's decorators, signature and docstring.

    `examples` are shown as a comment where there is no docstring. A `function` context that does not fit is cut; a file
    is not. Raises ExcludedError for a prompt that is still too long.
    """
    head = signature_of(function)
    if examples:
        notes = "".join(f"{function.indent}# {line}\n" for line in ("For example:", *examples))
        head = notes + head
    if context == "function":
        text = _of_function(function, MAX_CHARS - len(head)) + head
    else:
        text = _of_file(function, before) + head
        if context == "repository":
            text = _of_project(project, function) + text
    if len(text) > MAX_CHARS:
        raise ExcludedError(f"needs a prompt of more than {MAX_CHARS} characters")
    return text


def frame_of(function: Function) -> str:
    """The shortest text in which the function's body stands where it stands in its file: classes and conditions around
    it, and its signature."""
    return "".join(each.text for each in _headers(function, False)) + signature_of(function)


def signature_of(function: Function) -> str:
    """Decorators, signature and docstring, as in the file."""
    return "".join(function.module.lines[function.first_line - 1 : function.solution_line - 1])


def solution_of(function: Function) -> str:
    """The function's body as in the file."""
    text = "".join(function.module.lines[function.solution_line - 1 : function.node.end_lineno])
    return text if text.endswith("\n") else text + "\n"


def _around(function: Function) -> list[tuple[ast.stmt, str]]:
    """The statements around a function with the line that begins each: classes and conditions."""
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
        found.append((node, _header(node, function)))
        body = next(part for part in _bodies(node) if any(_holds(each, function) for each in part))


def _header(node: ast.stmt, function: Function) -> str:
    if isinstance(node, ast.ClassDef):
        bases = [*map(ast.unparse, node.bases), *(f"{k.arg}={ast.unparse(k.value)}" for k in node.keywords if k.arg)]
        return f"class {node.name}({', '.join(bases)}):" if bases else f"class {node.name}:"
    if isinstance(node, ast.If):
        test = ast.unparse(node.test)
        return f"if {test}:" if any(_holds(each, function) for each in node.body) else f"if not ({test}):"
    return "if True:"


def _holds(node: ast.stmt, function: Function) -> bool:
    return any(inner is function.node for inner in ast.walk(node))


def _bodies(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(node, name, [])
    for handler in getattr(node, "handlers", []):
        yield handler.body


def _headers(function: Function, whole: bool) -> Iterator[Piece]:
    """The lines that open what is around a function; `whole`: with what its classes hold before it."""
    for node, line in _around(function):
        yield Piece(f"{' ' * node.col_offset}{line}\n")
        if whole and isinstance(node, ast.ClassDef):
            yield from _of_class(function.module, node, function)


def _of_class(module: Module, node: ast.ClassDef, function: Function | None) -> Iterator[Piece]:
    """Docstring, short statements, constructor, and the signatures of the other methods."""
    pad = " " * node.body[0].col_offset
    stored: dict[str, None] = {}
    for each in node.body:
        for inner in ast.walk(each):
            if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store) and _is_self(inner.value):
                stored[inner.attr] = None
    for each in node.body:
        if function is not None and (each is function.node or _holds(each, function)):
            continue
        own_docstring = function is not None and each is node.body[0] and isinstance(each, ast.Expr)
        whole = own_docstring or getattr(each, "name", "") == "__init__"
        text = _short_text(module, each, each.col_offset, whole)
        if text:
            yield Piece(f"{text}\n", each)
    if stored and (function is None or function.node.name == "__init__" or "__init__" not in _names_in(node)):
        yield Piece(f"{pad}# attributes: {', '.join(stored)}\n")
    if function is not None:
        yield Piece("\n")


def _names_in(node: ast.ClassDef) -> set[str]:
    return {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _short_text(module: Module, node: ast.stmt, pad: int, whole: bool = False) -> str:
    """A statement of a module or class, or what it declares where it is long; "" for one that shows nothing."""
    space = " " * pad
    lines = module.lines[_first_line(node) - 1 : node.end_lineno]
    text = "".join(lines).rstrip("\n")
    if whole and len(lines) <= 3 * _WHOLE:
        return text
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        signature = _signature(node)
        summary = (ast.get_docstring(node) or "").split("\n\n")[0].replace("\\", "\\\\").replace('"""', "'''")
        doc = f'\n{space}    """{" ".join(summary.split())}"""' if summary else ""
        marks = "".join(f"{space}@{ast.unparse(each)}\n" for each in node.decorator_list)
        return f"{marks}{space}{signature}:{doc}\n{space}    ..." if doc else f"{marks}{space}{signature}: ..."
    if isinstance(node, ast.ClassDef):
        body = "".join(each.text for each in _of_class(module, node, None))
        return f"{space}{_class_line(node)}\n{body or space + '    ...'}".rstrip("\n")
    if len(lines) <= _WHOLE and len(text) <= 1200:
        return text
    if isinstance(node, ast.Expr):
        doc = str(node.value.value) if isinstance(node.value, ast.Constant) else ""
        short = doc.strip().split("\n\n")[0].replace("\\", "\\\\").replace('"""', "'''")
        return f'{space}"""{" ".join(short.split())}"""' if doc else ""
    if isinstance(node, ast.Assign | ast.AnnAssign):
        target = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
        return f"{space}{target} = ...  # shortened"
    return ""


def _class_line(node: ast.ClassDef) -> str:
    bases = ", ".join(map(ast.unparse, node.bases))
    return f"class {node.name}({bases}):" if bases else f"class {node.name}:"


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    kind = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    return f"{kind} {node.name}({ast.unparse(node.args)}){returns}"


def _of_function(function: Function, room: int) -> str:
    """The imports that a function and its class use, the module's helpers, classes and constants that it names, and its
    class: as much as fits."""
    module = function.module
    names = _names_of(function.node)
    for node, _line in _around(function):
        if isinstance(node, ast.ClassDef):
            names |= {n.id for base in node.bases for n in ast.walk(base) if isinstance(n, ast.Name)}
            names |= {n.id for d in node.decorator_list for n in ast.walk(d) if isinstance(n, ast.Name)}
            for each in node.body:
                if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                    names |= names_read(each)
    outer = {id(node) for node, _line in _around(function)} | {id(function.node)}
    blocks: list[Piece] = []
    for node in module.tree.body:
        wanted = bound_names(node) & names
        if not wanted or id(node) in outer:
            continue
        for each in _binding(node, wanted):
            if not isinstance(each, ast.Import | ast.ImportFrom):
                short = (each.end_lineno or 0) - each.lineno < _WHOLE
                text = _short_text(module, each, 0, whole=short) if each.col_offset == 0 else ast.unparse(each)
                blocks.append(Piece(text, each))
    shown = [*blocks, *_headers(function, True)]
    imports = _imports(module, names.union(*(_WORD.findall(piece.text) for piece in shown)))
    text = "".join(f"{line}\n" for line in imports)
    kept = fitting(shown, function, names, room - len(text))
    for block in (piece.text for piece in kept if piece in blocks):
        text += ("\n\n" if text and block.startswith(("def ", "class ", "@", "async ")) else "") + f"{block}\n"
    text += "\n\n" if text else ""
    return text + "".join(piece.text for piece in kept if piece not in blocks)


def _imports(module: Module, names: set[str]) -> dict[str, None]:
    """The import statements of a module that give one of these names, in order."""
    found: dict[str, None] = {}
    for node in module.tree.body:
        wanted = bound_names(node) & names
        for each in _binding(node, wanted) if wanted else ():
            if isinstance(each, ast.Import | ast.ImportFrom):
                found.update(dict.fromkeys(_import_lines(each, wanted)))
    return found


def _binding(node: ast.stmt, wanted: set[str]) -> Iterator[ast.stmt]:
    """The statements that bind names: of a condition, the first branch that does."""
    if isinstance(node, ast.If | ast.Try | ast.With):
        left = set(wanted)
        for body in _bodies(node):
            for each in body:
                if bound_names(each) & left:
                    left -= bound_names(each)
                    yield from _binding(each, wanted)
    else:
        yield node


def _import_lines(node: ast.Import | ast.ImportFrom, wanted: set[str]) -> Iterator[str]:
    for alias in node.names:
        if (alias.asname or alias.name).partition(".")[0] in wanted:
            one = ast.Import([alias]) if isinstance(node, ast.Import) else ast.ImportFrom(
                node.module, [alias], node.level
            )  # fmt: skip
            yield ast.unparse(one)


def _names_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The names that a function reads, also in quoted annotations."""
    names = names_read(function)
    annotations = [node.annotation for node in ast.walk(function.args) if isinstance(node, ast.arg)]
    for annotation in (*annotations, function.returns):
        for node in ast.walk(annotation) if annotation is not None else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                tree = parse(node.value)
                names |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} if tree else set()
    return names


def _of_file(function: Function, before: int) -> str:
    """The file's imports, then as many whole statements before the function as have `before` lines; statements of
    its class after the lines that open it."""
    module, around = function.module, _around(function)
    first = max(1, function.first_line - before)
    starts = [(_first_line(node), 0) for node in module.tree.body]
    for depth, (node, _line) in enumerate(around, start=1):
        starts += [(_first_line(each), depth) for body in _bodies(node) for each in body]
    fitting = [start for start in starts if first <= start[0] <= function.first_line]
    start, depth = min(fitting, default=(function.first_line, len(around)))
    opened = "".join(f"{' ' * node.col_offset}{line}\n" for node, line in around[:depth])
    imports = [
        "".join(module.lines[node.lineno - 1 : node.end_lineno])
        for node in module.tree.body
        if isinstance(node, ast.Import | ast.ImportFrom) and node.lineno < start
    ]
    gap = "\n\n" if imports else ""
    return "".join(imports) + gap + opened + "".join(module.lines[start - 1 : function.first_line - 1])


def _of_project(project: Project, function: Function) -> str:
    """What the file imports from the project, as comments: signatures and docstrings, those that the function names
    first."""
    module, named = function.module, names_read(function.node)
    found: list[tuple[bool, str]] = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and (source := project.modules.get(absolute(module, node))) is not None:
            for alias in node.names:
                each = next((n for n in source.tree.body if alias.name in bound_names(n)), None)
                if each is not None:
                    text = f"from {source.name}:\n{_short_text(source, each, 0)}"
                    found.append(((alias.asname or alias.name) not in named, text))
    shown, left = "", MAX_OF_PROJECT
    for _far, text in sorted(found, key=lambda each: each[0]):
        block = "".join(f"# {line}\n" for line in text.splitlines()) + "\n"
        if len(block) <= left:
            shown, left = shown + block, left - len(block)
    return shown


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])
