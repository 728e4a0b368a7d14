"""What a body uses that a prompt may not tell: texts, numbers and names, with copies of the function that change one.

Where a case notices the change, an answer has to know the original: it could only guess it.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from evaluation.from_code.source.attributes import STANDARD_ATTRIBUTE_NAMES
from evaluation.source import FunctionNode, find_compile_error, is_self, unparse

MAX_CONSTANTS = 40
_KNOWN_NUMBERS = frozenset({0, 1, 2, 10, 100})
_KNOWN_TEXTS = frozenset({
    "utf-8", "utf8", "utf_8", "UTF-8", "ascii", "latin-1", "latin1", "iso-8859-1", "strict", "ignore", "replace",
    "surrogateescape", "NFC", "NFD", "NFKC", "NFKD", "r", "w", "rb", "wb", "big", "little", "__main__",
})  # fmt: skip
"""Names of codecs and modes: every programmer knows them, and a case does not show them."""
_PLACEHOLDER = re.compile(r"%(?:\(\w+\))?[-#0-9. +]*[a-zA-Z%]|\{[^{}]*\}|\\\d|\\g<\w+>")
_WORD = re.compile(r"\w")
_SYNTAX = re.compile(r"\(\?(?:P[<=]|[aiLmsux]+)|\\[a-zA-Z]")
"""Letters of regular expressions that stand for no text."""
Kind = Literal["text", "number", "name", "option"]


@dataclass(frozen=True)
class BodyConstant:
    """A text, number, name or option of a body. `variants`: the function's source with another one in its places."""

    kind: Kind
    value: Any
    line: int
    variants: tuple[str, ...]

    @property
    def must_be_told(self) -> bool:
        """Whether a reader would have to be told it; separators show in examples."""
        return self.kind != "text" or bool(_WORD.search(_SYNTAX.sub("", _PLACEHOLDER.sub("", self._text))))

    @property
    def _text(self) -> str:
        return self.value.decode("latin-1") if isinstance(self.value, bytes) else str(self.value)

    def is_in(self, text: str) -> bool:
        """Whether a text holds it: each part of a format, a number or name as a word of its own."""
        parts = [part.strip() for part in _PLACEHOLDER.split(self._text)] if self.kind == "text" else [self._text]
        return all(_is_part(part, text) for part in parts if part) and any(parts)

    def __str__(self) -> str:
        shown = self.value if self.kind == "name" else repr(self.value)
        return f"line {self.line}: {shown if len(shown) <= 80 else shown[:77] + '...'}"


def _is_part(part: str, text: str) -> bool:
    start = r"(?<!\w)" if _WORD.match(part) else ""
    end = r"(?!\w)" if _WORD.match(part[-1]) else ""
    written = {part, repr(part)[1:-1], part.replace("\n", "\\n")}
    return any(re.search(f"{start}{re.escape(each)}{end}", text) for each in written)


def find_constants(
    function: FunctionNode, attribute_names: frozenset[str], for_tests: bool = False
) -> list[BodyConstant]:
    """The constants of a body in its order, at most MAX_CONSTANTS; names only of the project's attributes.

    Texts of exceptions, which recorded calls compare only if a docstring quotes them, and options of calls such
    as `indent=2` are left out but for the project's tests (`for_tests`).
    """
    nodes = list(ast.walk(function))
    places: dict[tuple[Kind, type, Any], list[int]] = {}
    used = {id(node) for node in _walk_used_nodes(function, for_tests)}
    for place, node in enumerate(nodes):
        if id(node) in used and (found := _parse_constant(node, attribute_names, for_tests)):
            places.setdefault((found[0], type(found[1]), found[1]), []).append(place)
    constants = []
    for (kind, _, value), numbers in places.items():
        variants = []
        for change in _list_changes(kind, value):
            copied = copy.deepcopy(function)
            copies = list(ast.walk(copied))
            for number in numbers:
                change(copies[number])
            source = unparse(ast.fix_missing_locations(copied))
            if source is not None and find_compile_error(source) is None:
                variants.append(source)
        constants.append(BodyConstant(kind, value, getattr(nodes[numbers[0]], "lineno", 0), tuple(variants)))
    return sorted(constants, key=lambda each: (each.line, each.kind, str(each.value)))[:MAX_CONSTANTS]


def find_attribute_names(trees: Iterator[ast.Module]) -> frozenset[str]:
    """The names that the project's classes give their attributes, without those that common types have too."""
    found: set[str] = set()
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                if is_self(node.value):
                    found.add(node.attr)
            elif isinstance(node, ast.ClassDef):
                found |= {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
                found |= {
                    name.id
                    for each in node.body
                    if isinstance(each, ast.Assign | ast.AnnAssign)
                    for name in ast.walk(each)
                    if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
                }
    return frozenset(found - STANDARD_ATTRIBUTE_NAMES)


def _walk_used_nodes(function: FunctionNode, with_messages: bool) -> Iterator[ast.AST]:
    """The nodes of a body that decide what it does: no docstrings and annotations."""
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop()
        if (isinstance(node, ast.Raise) and not with_messages) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        ):
            continue
        yield node
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("hasattr", "getattr"):
            standard = (isinstance(n, ast.Constant) and n.value in STANDARD_ATTRIBUTE_NAMES for n in node.args[1:2])
            todo += node.args[:1] if any(standard) else node.args
            continue
        skipped = ("annotation", "returns", "msg")
        for name, value in ast.iter_fields(node):
            if name not in skipped:
                todo += [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, ast.AST)]


def _parse_constant(node: ast.AST, attribute_names: frozenset[str], with_options: bool) -> tuple[Kind, Any] | None:
    match node:
        case ast.Constant(value=bool() | None):
            return None
        case ast.Constant(value=str() | bytes() as text) if text.strip() and text not in _KNOWN_TEXTS:
            return "text", text
        case ast.Constant(value=int() | float() as number) if number not in _KNOWN_NUMBERS:
            return "number", number
        case ast.Attribute(attr=name) if name in attribute_names:
            return "name", name
        case ast.keyword(arg=str(name), value=ast.Constant(value=int() as value)) if with_options:
            return ("option", f"{name}={value!r}") if value in _KNOWN_NUMBERS else None
    return None


def _list_changes(kind: Kind, value: Any) -> list[Callable[[Any], None]]:
    """Functions that change a node which holds the value."""
    if kind == "name":
        return [lambda node: setattr(node, "attr", f"{value}_x")]
    if kind == "option":
        return [lambda node: setattr(node, "value", ast.Constant(_change_option(node.value.value)))]
    if kind == "text":
        return [lambda node: setattr(node, "value", _put_letter_in(value))]
    others = (value + 1, value - 1) if isinstance(value, int) else (value + 1.0, value * 0.9)
    return [lambda node, number=number: setattr(node, "value", number) for number in others]  # type: ignore[misc]


def _put_letter_in(value: str | bytes) -> str | bytes:
    """The text with a letter in its middle, but in no placeholder: a search for the whole text finds nothing then."""
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    spans = [found.span() for found in _PLACEHOLDER.finditer(text)]
    place = next((end for start, end in spans if start < len(text) // 2 < end), len(text) // 2 or 1)
    changed = f"{text[:place]}x{text[place:]}"
    return changed.encode("latin-1") if isinstance(value, bytes) else changed


def _change_option(value: int) -> int:
    return not value if isinstance(value, bool) else value + 1
