"""The attributes of a class as its source gives them: types, values, and what its bases in the project add.

Values are shortened so that a reader still sees their type and first items: valid Python, of the same type.
"""

from __future__ import annotations

import ast
import collections
import copy
import datetime
import decimal
import fractions
import io
import pathlib
import re
import threading
import types
from collections.abc import Iterator
from dataclasses import dataclass

from evaluation.from_code.source.closure import resolve_import
from evaluation.from_code.source.project import Module, Project
from evaluation.source import is_self, list_bound_names

_VALUE_CHARS = 100
_MAX_ATTRIBUTES = 40
_MAX_BASES = 8
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
CONSTRUCTORS = ("__init__", "__new__", "__post_init__")
MAX_ITEMS = 4
MAX_TEXT = 60
MAX_DEPTH = 3
_ELLIPSIS = ast.Constant(...)


@dataclass(frozen=True)
class Attribute:
    """An attribute of the instances of a class: type and value as text, "" where the source does not say, and the
    method that gives it the value."""

    name: str
    type: str
    value: str
    method: str

    def __str__(self) -> str:
        text = f"{self.name}: {self.type}" if self.type else self.name
        text += f" = {self.value}" if self.value else ""
        return text if self.method in CONSTRUCTORS else f"{text}, in {self.method}()"


def find_attributes(node: ast.ClassDef) -> list[Attribute]:
    """What the methods of a class store in `self`, each attribute once: as a constructor does, else the first."""
    found: dict[str, Attribute] = {}
    methods = [each for each in _walk_statements(node.body) if isinstance(each, _FUNCTIONS)]
    for method in sorted(methods, key=lambda each: each.name not in CONSTRUCTORS):
        annotated = {a.arg: a.annotation for a in ast.walk(method.args) if isinstance(a, ast.arg)}
        for target, annotation, value in _find_stores(method):
            of_parameter = annotated.get(value.id) if isinstance(value, ast.Name) else None
            typed = annotation or of_parameter
            kind = format_value(typed, _VALUE_CHARS) if typed is not None else ""
            shown = format_value(value, _VALUE_CHARS) if value is not None else ""
            found.setdefault(target.attr, Attribute(target.attr, kind, shown, method.name))
    return list(found.values())


def format_attributes(attributes: list[Attribute], pad: str, title: str = "attributes") -> str:
    """The attributes as comment lines, one for each; the names of those after the first _MAX_ATTRIBUTES share a line,
    which may be cut."""
    if not attributes:
        return ""
    lines = [f"{title}:", *(f"    {each}" for each in attributes[:_MAX_ATTRIBUTES])]
    if len(attributes) > _MAX_ATTRIBUTES:
        lines.append(f"    and {', '.join(each.name for each in attributes[_MAX_ATTRIBUTES:])}"[:_VALUE_CHARS])
    return "".join(f"{pad}# {line}\n" for line in lines)


def describe_inherited(project: Project, module: Module, node: ast.ClassDef, names: set[str], pad: str) -> str:
    """The attributes and signatures among `names` that bases in other modules of the project give the class."""
    text = ""
    left = names - _find_own_names(node)
    todo = list(_find_bases(project, module, node))
    seen: set[tuple[str, str]] = set()
    while todo and len(seen) < _MAX_BASES:
        home, base = todo.pop(0)
        if (home.name, base.name) in seen:
            continue
        seen.add((home.name, base.name))
        if home is not module:
            text += _describe_members(base, left, pad)
        left -= _find_own_names(base)
        todo.extend(_find_bases(project, home, base))
    return text


def _describe_members(base: ast.ClassDef, names: set[str], pad: str) -> str:
    attributes = [each for each in find_attributes(base) if each.name in names]
    lines = []
    for each in _walk_statements(base.body):
        if isinstance(each, _FUNCTIONS) and each.name in names:
            returns = f" -> {ast.unparse(each.returns)}" if each.returns is not None else ""
            lines.append(f"{each.name}({ast.unparse(each.args)}){returns}")
        elif isinstance(each, ast.AnnAssign | ast.Assign) and list_bound_names(each) & names:
            lines.append(format_value(each, 2 * _VALUE_CHARS))  # type: ignore[arg-type]
    text = format_attributes(attributes, pad, f"attributes from {base.name}")
    shown = [f"from {base.name}:", *(f"    {line}" for line in lines)] if lines else []
    return text + "".join(f"{pad}# {line}\n" for line in shown)


def _find_own_names(node: ast.ClassDef) -> set[str]:
    return {each.name for each in find_attributes(node)}.union(*map(list_bound_names, node.body))


def _find_bases(project: Project, module: Module, node: ast.ClassDef) -> Iterator[tuple[Module, ast.ClassDef]]:
    """The bases of a class whose source the project has, with their modules."""
    for base in (each.value if isinstance(each, ast.Subscript) else each for each in node.bases):
        name = ast.unparse(base).rpartition(".")[2]
        for home in (module, *_find_modules(project, module, ast.unparse(base).partition(".")[0])):
            found = next((n for n in home.tree.body if isinstance(n, ast.ClassDef) and n.name == name), None)
            if found is not None and found is not node:
                yield home, found
                break


def _find_modules(project: Project, module: Module, name: str) -> Iterator[Module]:
    """The modules of the project that a name of a module comes from, or stands for."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom):
            origin = resolve_import(module, node)
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    found = (project.modules.get(each) for each in (f"{origin}.{alias.name}", origin))
                    yield from (each for each in found if each is not None)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if (alias.asname or alias.name).partition(".")[0] == name and alias.name in project.modules:
                    yield project.modules[alias.name]


def _find_stores(
    method: ast.FunctionDef | ast.AsyncFunctionDef,
) -> Iterator[tuple[ast.Attribute, ast.expr | None, ast.expr | None]]:
    """(attribute, annotation, value) of each store into `self`, in the order of the source; None for what is not
    there."""
    known: dict[int, tuple[ast.expr | None, ast.expr | None]] = {}
    for node in ast.walk(method):
        if isinstance(node, ast.AnnAssign):
            known[id(node.target)] = node.annotation, node.value
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                known[id(target)] = None, node.value
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = zip(target.elts, node.value.elts, strict=False)
                    known |= {id(part): (None, value) for part, value in pairs}
    stores = [
        node for node in ast.walk(method)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_self(node.value)
    ]  # fmt: skip
    for node in sorted(stores, key=lambda each: (each.lineno, each.col_offset)):
        yield (node, *known.get(id(node), (None, None)))


def _walk_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a class, those under conditions too."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With):
            yield from _walk_statements([*node.body, *getattr(node, "orelse", [])])


_STANDARD_TYPES = (
    object, str, bytes, int, float, list, dict, set, tuple, type, BaseException, OSError, io.BytesIO, io.StringIO,
    re.Pattern, re.Match, collections.Counter, collections.OrderedDict, collections.deque, datetime.datetime,
    datetime.timedelta, datetime.tzinfo, pathlib.Path, decimal.Decimal, fractions.Fraction, threading.Thread,
    threading.Condition, type(threading.Lock()), types.FunctionType, types.ModuleType, types.CodeType,
)  # fmt: skip
STANDARD_ATTRIBUTE_NAMES = frozenset(name for kind in _STANDARD_TYPES for name in dir(kind))


def shorten_value(value: ast.expr, depth: int = 0) -> ast.expr:
    """The expression with the first items of its lists, dicts, sets and tuples and the beginnings of its texts."""
    if depth > MAX_DEPTH and not isinstance(value, ast.Constant):
        return _ELLIPSIS
    short = copy.copy(value)
    match short:
        case ast.Constant(value=str() | bytes() as text):
            short.value = _shorten_text(text)
        case ast.Dict():
            more = len(short.values) > MAX_ITEMS
            short.values = [*(shorten_value(each, depth + 1) for each in short.values[:MAX_ITEMS]), *[_ELLIPSIS] * more]
            keys = short.keys[:MAX_ITEMS]
            short.keys = [*(key and shorten_value(key, depth + 1) for key in keys), *[_ELLIPSIS] * more]
        case ast.List() | ast.Set() | ast.Tuple():
            more = len(short.elts) > MAX_ITEMS
            short.elts = [*(shorten_value(each, depth + 1) for each in short.elts[:MAX_ITEMS]), *[_ELLIPSIS] * more]
        case ast.Call():  # of what it is made with, all arguments count: re.compile, frozenset, dict
            short.args = [shorten_value(each, depth) for each in short.args]
            short.keywords = [ast.keyword(each.arg, shorten_value(each.value, depth)) for each in short.keywords]
        case ast.BinOp():
            short.left, short.right = shorten_value(short.left, depth), shorten_value(short.right, depth)
        case ast.Starred():
            short.value = shorten_value(short.value, depth)
    return short


def _shorten_text(text: str | bytes) -> str | bytes:
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[:MAX_TEXT]}..." if isinstance(text, str) else text[:MAX_TEXT] + b"..."


def format_value(value: ast.expr, max_chars: int) -> str:
    """The value in one line; what stays longer than `max_chars` as `...`."""
    text = ast.unparse(value)
    if len(text) > max_chars:
        text = ast.unparse(shorten_value(value))
    return text if len(text) <= max_chars and "\n" not in text else "..."
