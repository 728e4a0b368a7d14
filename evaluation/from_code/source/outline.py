"""What a reader needs to know of a statement: declarations, summaries, the first items of long values."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from evaluation.from_code.source.attributes import (
    CONSTRUCTORS,
    MAX_DEPTH,
    Attribute,
    describe_inherited,
    find_attributes,
    format_attributes,
    shorten_value,
)
from evaluation.from_code.source.find import ProjectFunction
from evaluation.from_code.source.project import Module, Project
from evaluation.source import list_bound_names

_WHOLE_LINES = 12
_WHOLE_CHARS = 1200
_VALUE_CHARS = 600
_SUMMARY_CHARS = 400
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_APART = 3
"""Most characters that separate a piece from the next."""


def outline_own_class(
    project: Project, module: Module, node: ast.ClassDef, function: ProjectFunction
) -> Iterator[PromptPiece]:
    """The class around a function: docstring, statements, signatures of methods, and its attributes with types and the
    values that the constructor gives them. Each piece is shown in full where there is room."""
    pad = read_inner_indent(module, node)
    attributes = find_attributes(node)
    constructors = set()
    for each in node.body:
        if each is function.node or any(inner is function.node for inner in ast.walk(each)):
            continue
        text, full = shorten_statement(module, each), read_source(module, each)
        if isinstance(each, _FUNCTIONS) and each.name in CONSTRUCTORS:
            constructors.add(each.name)
            given = format_attributes([one for one in attributes if one.method == each.name], pad)
            yield PromptPiece(f"{text}\n{given}", None, f"{full}\n")
        elif text:
            yield PromptPiece(f"{text}\n", each, f"{full}\n")
    own_name = function.node.name
    if own_name in CONSTRUCTORS:  # what it gives them is what is asked for
        if attributes:
            yield PromptPiece(f"{pad}# attributes: {', '.join(one.name for one in attributes)}\n")
    else:
        others = [one for one in attributes if one.method not in constructors]
        shown = [_hide_value(one) if one.method == own_name else one for one in others]
        yield PromptPiece(format_attributes(shown, pad))
    used = {n.attr for n in ast.walk(function.node) if isinstance(n, ast.Attribute)}
    yield PromptPiece(describe_inherited(project, module, node, used, pad))
    yield PromptPiece("\n")


def _hide_value(attribute: Attribute) -> Attribute:
    """The attribute without what the asked function gives it."""
    return Attribute(attribute.name, attribute.type, "", CONSTRUCTORS[0])


def shorten_statement(module: Module, node: ast.stmt) -> str:
    """A statement; of functions, classes and long ones what they declare; "" for one that shows nothing."""
    space = module.get_indent(node.lineno)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        summary = _summarize(ast.get_docstring(node) or "")
        pad = read_inner_indent(module, node)
        doc = f'\n{pad}"""{summary}"""' if summary else ""
        marks = "".join(f"{space}@{ast.unparse(each)}\n" for each in node.decorator_list)
        return f"{marks}{space}{_format_signature(node)}:{doc}" + (f"\n{pad}..." if doc else " ...")
    if isinstance(node, ast.ClassDef):
        return _outline_class(module, node, space, node.body)
    text = read_source(module, node)
    if text.count("\n") < _WHOLE_LINES and len(text) <= _WHOLE_CHARS:
        return text
    if isinstance(node, ast.Expr):
        doc = str(node.value.value) if isinstance(node.value, ast.Constant) else ""
        return f'{space}"""{_summarize(doc)}"""' if doc else ""
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        return f"{space}{_shorten_assignment(node)}  # shortened"
    return ""


def read_source(module: Module, node: ast.stmt) -> str:
    """The lines of a statement, with its decorators."""
    return "".join(module.lines[find_first_line(node) - 1 : node.end_lineno]).rstrip("\n")


def read_inner_indent(module: Module, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The white space before the lines of a body."""
    around, inner = module.get_indent(node.lineno), module.get_indent(node.body[0].lineno)
    return inner if len(inner) > len(around) else f"{around}    "


def find_first_line(node: ast.stmt) -> int:
    """The line of a statement or of its first decorator."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def shorten_class(module: Module, node: ast.ClassDef, methods: set[str]) -> str:
    """The outline of a class with these of its methods alone."""
    body = [each for each in node.body if not isinstance(each, _FUNCTIONS) or each.name in methods]
    return _outline_class(module, node, module.get_indent(node.lineno), body)


def _outline_class(module: Module, node: ast.ClassDef, space: str, body: Sequence[ast.stmt]) -> str:
    pad = read_inner_indent(module, node)
    parts = [shorten_statement(module, each) for each in body]
    inner = "".join(f"{part}\n" for part in parts if part) + format_attributes(find_attributes(node), pad)
    bases = ", ".join(map(ast.unparse, node.bases))
    line = f"class {node.name}({bases}):" if bases else f"class {node.name}:"
    marks = "".join(f"{space}@{ast.unparse(each)}\n" for each in node.decorator_list)
    return f"{marks}{space}{line}\n{inner or pad + '...'}".rstrip("\n")


def _shorten_assignment(node: ast.Assign | ast.AnnAssign) -> str:
    """The assignment with its value in the same shape; `...` for a value that stays long."""
    targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
    head = " = ".join(map(ast.unparse, targets))
    if isinstance(node, ast.AnnAssign):
        head += f": {ast.unparse(node.annotation)}"
    assert node.value is not None
    values = (ast.unparse(shorten_value(node.value, depth)) for depth in range(MAX_DEPTH + 1))
    value = next((text for text in values if len(text) <= _VALUE_CHARS and "\n" not in text), "...")
    return f"{head} = {value}"


def _format_signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    kind = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    return f"{kind} {node.name}({ast.unparse(node.args)}){returns}"


def _summarize(doc: str) -> str:
    """The first paragraph of a docstring, in one line that may stand between triple quotes."""
    text = " ".join(doc.strip().split("\n\n")[0].split())
    text = text if len(text) <= _SUMMARY_CHARS else f"{text[:_SUMMARY_CHARS]}..."
    text = text.replace("\\", "\\\\").replace('"""', "'''")
    return f'{text[:-1]}\\"' if text.endswith('"') else text


@dataclass(frozen=True)
class PromptPiece:
    """A part of a prompt, and the statement of the file that it shows; one without a statement is always shown.

    `full` is shown instead where there is room, "" for what has no longer form. `is_global` marks a statement of the
    module, which stands before the function's class.
    """

    text: str
    node: ast.stmt | None = None
    full: str = ""
    is_global: bool = False


def select_pieces(
    pieces: Sequence[PromptPiece], function: ProjectFunction, names: set[str], room: int
) -> list[PromptPiece]:
    """The pieces that fit, in their order: first the constructor and what the function names, then the others, each
    time the nearest in the file first. What room is left shows these in full; other methods and classes stay short."""
    names = names | {n.attr for n in ast.walk(function.node) if isinstance(n, ast.Attribute)}

    def rank(piece: PromptPiece) -> tuple[bool, bool, int]:
        if piece.node is None:
            return False, False, 0
        return True, not list_bound_names(piece.node) & names, abs(piece.node.lineno - function.node.lineno)

    order = sorted(enumerate(pieces), key=lambda each: rank(each[1]))
    kept: dict[int, PromptPiece] = {}
    for at, piece in order:
        length = len(piece.text) + _APART
        if piece.node is None or length <= room:
            kept[at] = piece
            room -= length
    for at, piece in order:
        longer = len(piece.full) - len(piece.text)
        is_named = piece.node is None or bool(list_bound_names(piece.node) & names)
        is_definition = isinstance(piece.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if at in kept and piece.full and longer <= room and (is_named or not is_definition):
            kept[at] = replace(piece, text=piece.full)
            room -= longer
    return [kept[at] for at in sorted(kept)]
