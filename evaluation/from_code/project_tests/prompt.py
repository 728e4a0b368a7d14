"""What a model sees of a function that its project's tests judge: its file in outline, then its head.

The whole file is what is judged, so the outline need not run. It has the file's imports, the parts of the file that the
function names, and of its class the docstring, the attributes, `__init__` and the methods that it calls: signatures
and the first line of a docstring, without bodies.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import indent

from evaluation.effects import names_read
from evaluation.from_code.source.project import Module
from evaluation.source import bound_names

MAX_CHARS = 8_000
_LONGEST_CONSTANT = 400
_LONGEST_INIT = 30
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Place:
    """Where a function stands: the classes around it, outermost first, and the line on which its body starts."""

    module: Module
    node: Function
    owners: tuple[ast.ClassDef, ...]
    body_line: int

    @property
    def first_line(self) -> int:
        """The line of its first decorator, or of its `def`."""
        return min([self.node.lineno, *(decorator.lineno for decorator in self.node.decorator_list)])

    def solution(self) -> str:
        """Its body as in the file."""
        text = "".join(self.module.lines[self.body_line - 1 : self.node.end_lineno])
        return text if text.endswith("\n") else text + "\n"


def owners_of(module: Module, node: ast.AST) -> tuple[ast.ClassDef, ...] | None:
    """The classes around a function, None where something else is around it, such as a condition."""
    around: tuple[ast.ClassDef, ...] = ()
    body = module.tree.body
    while node not in body:
        inner = next(
            (each for each in body if isinstance(each, ast.ClassDef) and node in ast.walk(each)),
            None,
        )
        if inner is None:
            return None
        around, body = (*around, inner), inner.body
    return around


def prompt_of(place: Place) -> str:
    """The prompt in completion form, which ends where the body begins."""
    head = "".join(place.module.lines[place.first_line - 1 : place.body_line - 1])
    needed = names_read(place.node)
    blocks = [*_imports(place.module)]
    parts = list(_outlines(place, needed))
    around = _classes(place)
    while parts and sum(map(len, [*blocks, *parts, around, head])) > MAX_CHARS:
        parts.pop(0)
    text = "\n".join(blocks) + "\n\n\n" if blocks else ""
    return text + "".join(f"{part}\n\n" for part in parts) + around + head


def _imports(module: Module) -> Iterator[str]:
    for node in module.tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield ast.unparse(node)


def _outlines(place: Place, needed: set[str]) -> Iterator[str]:
    """What the function names of its file."""
    top = place.owners[0] if place.owners else place.node
    for node in place.module.tree.body:
        if node is top or not bound_names(node) & needed or isinstance(node, ast.Import | ast.ImportFrom):
            continue
        if isinstance(node, Function):
            yield _signature(node)
        elif isinstance(node, ast.ClassDef):
            yield _class_signature(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            text = ast.unparse(node)
            yield text if len(text) <= _LONGEST_CONSTANT else text[: text.index("=") + 1] + " ..."


def _signature(node: Function) -> str:
    """A function without its body."""
    doc = (ast.get_docstring(node) or "").partition("\n")[0]
    body: list[ast.stmt] = [ast.Expr(ast.Constant(doc))] if doc else []
    fields = {name: getattr(node, name) for name in node._fields}
    fields["body"] = [*body, ast.Expr(ast.Constant(...))]
    return ast.unparse(ast.fix_missing_locations(type(node)(**fields, lineno=1)))


def _class_signature(node: ast.ClassDef) -> str:
    doc = (ast.get_docstring(node) or "").partition("\n")[0]
    init = next((each for each in node.body if isinstance(each, Function) and each.name == "__init__"), None)
    parts = [
        f'    """{doc}"""' if doc and '"' not in doc and "\\" not in doc else "",
        indent(_signature(init), "    ") if init else "",
    ]
    return _header(node) + "\n" + ("\n".join(filter(None, parts)) or "    ...")


def _header(node: ast.ClassDef) -> str:
    bases = ", ".join([*map(ast.unparse, node.bases), *map(ast.unparse, node.keywords)])
    decorators = "".join(f"@{ast.unparse(each)}\n" for each in node.decorator_list)
    return f"{decorators}class {node.name}({bases}):" if bases else f"{decorators}class {node.name}:"


def _classes(place: Place) -> str:
    """The classes around the function, open at the end; "" for a function at module level."""
    text = ""
    for depth, owner in enumerate(place.owners):
        margin = "    " * depth
        text += indent(_header(owner), margin) + "\n"
        if owner is place.owners[-1]:
            text += _members(place, owner, margin + "    ")
    return text


def _members(place: Place, owner: ast.ClassDef, margin: str) -> str:
    called = {n.attr for n in ast.walk(place.node) if isinstance(n, ast.Attribute)}
    lines = place.module.lines
    parts: list[str] = []
    if ast.get_docstring(owner, clean=False) is not None:
        doc = owner.body[0]
        text = "".join(lines[doc.lineno - 1 : doc.end_lineno])
        parts.append(
            text if len(text) <= 1500 else f'{margin}"""{(ast.get_docstring(owner) or "").partition(chr(10))[0]}"""\n'
        )
    for node in owner.body:
        if node is place.node:
            continue
        if isinstance(node, ast.Assign | ast.AnnAssign):
            text = ast.unparse(node)
            parts += [indent(text, margin) + "\n"] if len(text) <= _LONGEST_CONSTANT else []
        elif isinstance(node, Function) and node.name == "__init__":
            short = (node.end_lineno or 0) - node.lineno < _LONGEST_INIT
            parts.append(indent(ast.unparse(node) if short else _signature(node), margin) + "\n")
        elif isinstance(node, Function) and node.name in called:
            parts.append(indent(_signature(node), margin) + "\n")
    return "".join(f"{part}\n" for part in parts)
