"""Extraction in other languages than Python: from a raw answer to the complete program, by the language's grammar.

As in Python (evaluation/extraction.py) every reading is tried in order, and the first whose function has no syntax
error and does something wins. Then demonstrations are left out: what is at top level, defines nothing and runs.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

import tree_sitter
from tree_sitter import Node

from evaluation.datasets import Task
from evaluation.extraction import (
    MAX_CHARS,
    TREE_VERSION,
    CodeLocation,
    Extraction,
    Reading,
    has_no_code,
    iterate_blocks,
)
from evaluation.languages import registry
from evaluation.languages.base import Language, Syntax
from evaluation.normalization import convert_line_ends, extract_answer_text
from evaluation.prompting import Mode

_DEFERRED_NODES = ("function", "method", "class", "lambda", "closure")
_DEPTH = 4
"""How deep below a top-level node a definition may be: export, declaration, declarator."""
_MAIN = "main"
"""What a program starts with: in an answer a demonstration, whose errors would cost the answer."""
_ENDINGS = ("", "\n}\n", "}\n", "\n    }\n}\n")
"""What closes the function that the prompt opened: nothing, the brace at which the sample was stopped, or that brace
and the one of the class around it."""


def extract_by_grammar(task: Task, raw: str, mode: Mode) -> Extraction:
    """The program in a raw answer; in chat mode `raw` starts inside the fence that the prompt opened. Never raises."""
    text = extract_answer_text(convert_line_ends(raw))
    if has_no_code(text):
        return Extraction("", "empty", TREE_VERSION)
    if task.suffix is not None:
        return Extraction(task.build_program(text), "completion", TREE_VERSION)
    language, opened = registry.load_language(task.language), mode == "chat"
    if len(text) <= MAX_CHARS:
        for reading, location, program in _iterate_readings(task, text, opened, language.SYNTAX):
            if (cut := trim_program(program, task.entry_point, language, task.test)) is not None:
                return Extraction(_add_preamble(task, cut, language), location, TREE_VERSION, reading)
    return _read_literally(task, text, opened)


def _read_literally(task: Task, text: str, opened: bool) -> Extraction:
    """The reading without repairs, for an answer of which no other reading is a program."""
    found = [code for _, code in iterate_blocks(text, opened) if code.strip()]
    code = found[0] if opened and found else text
    restated = _is_mentioning(task.entry_point, code)
    location: CodeLocation = "open_fence" if opened else "function" if restated else "completion"
    return Extraction(code if restated else task.prompt + code, location, TREE_VERSION)


def _is_mentioning(name: str, code: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", code) is not None


def _iterate_readings(
    task: Task, text: str, opened: bool, syntax: Syntax
) -> Iterator[tuple[Reading, CodeLocation, str]]:
    """Programs that the answer may mean, the most likely first."""
    if not opened:
        for ending in _ENDINGS:
            yield "continuation", "completion", task.prompt + text + ending
    codes = [(location, code) for location, code in iterate_blocks(text, opened) if code.strip()]
    for location, code in codes:
        if _is_mentioning(task.entry_point, code):
            yield "function", location or "function", code
    for location, code in codes:
        if location == "open_fence" and _is_mentioning(
            task.entry_point, code
        ):  # the sample may have ended before its last brace
            for ending in _ENDINGS[1:]:
                yield "function", location, code + ending
    for location, code in codes if opened else ():
        if any(task.entry_point in part.names for part in split_parts(code, syntax)):
            continue
        for ending in _ENDINGS:
            yield "body", location or "completion", task.prompt + code + ending


def find_open_function(prompt: str, language: Language) -> str | None:
    """The last name that a prompt defines once its open function is closed, None where it defines none."""
    for ending in _ENDINGS[1:]:
        named = [part for part in split_parts(prompt + ending, language.SYNTAX) if part.names and not part.has_error]
        if named:
            return named[-1].names[-1]
    return None


def trim_program(program: str, entry_point: str, language: Language, test: str = "") -> str | None:
    """The program without demonstrations; None if its function is missing, empty or has a syntax error.

    The last whole definition of the function wins. What follows it is dropped from the first syntax error on. `main` is
    a demonstration. Names that the test defines are left out too: as the test becomes part of the program, they would
    be defined twice.
    """
    syntax = language.SYNTAX
    every = split_parts(program, syntax)
    broken = next((i for i, part in enumerate(every) if part.has_error), len(every))
    whole = every[:broken]
    defining = [part for part in whole if entry_point in part.names]
    chosen = next((part for part in reversed(defining) if not has_empty_body(part, syntax)), None)
    if chosen is None:
        return None
    left_out = {_MAIN} - {entry_point}
    if test:
        left_out |= {name for part in split_parts(test, syntax) for name in part.names}
    kept = [
        part
        for part in whole
        if part is chosen
        or (
            part not in defining
            and not (part.names and left_out.issuperset(part.names))  # it defines nothing but these
            and _is_kept(part, entry_point, syntax)
        )
    ]
    texts = (
        part.remove_definitions(_MAIN, syntax) if _MAIN in {*part.names} & left_out else part.text for part in kept
    )
    return "".join(f"{text}\n" for text in texts)


def _is_kept(part: SourcePart, entry_point: str, syntax: Syntax) -> bool:
    """Whether a part belongs to the program: it defines something, and does not try the function out."""
    known = part.kind in syntax.kept or f"{part.kind}/{part.inner}" in syntax.kept
    return part.kind in syntax.definitions or (known and not part.uses(entry_point))


def _add_preamble(task: Task, program: str, language: Language) -> str:
    """The program after the definitions of the prompt that it does not have itself, and after the imports and the like
    of which it has none."""
    syntax = language.SYNTAX
    own = split_parts(program, syntax)
    names, kinds = {name for part in own for name in part.names}, {part.kind for part in own}
    given = [part for part in split_parts(task.prompt + "\n}\n", syntax) if not part.has_error]
    missing = [
        part.text
        for part in given
        if (part.names and task.entry_point not in part.names and not names.issuperset(part.names))
        or (not part.names and part.kind in syntax.kept and part.kind not in (*kinds, *syntax.comments))
    ]
    return "".join(f"{text}\n" for text in missing) + program


@dataclass(frozen=True, slots=True)
class SourcePart:
    """A top-level part of a source text."""

    node: Node
    text: str
    kind: str
    inner: str  # the kind of its first part
    names: tuple[str, ...]  # what it defines
    has_error: bool

    def uses(self, name: str) -> bool:
        """Whether it uses this name when it runs, not in a function that may be called later."""
        wanted = name.encode()
        return any(not node.named_children and node.text == wanted for node in _walk(self.node, _DEFERRED_NODES))

    def remove_definitions(self, name: str, syntax: Syntax) -> str:
        """Its text without definitions of this name inside it."""
        source, start = self.text.encode("utf-8", "replace"), self.node.start_byte
        inner = [node for node in _walk(self.node) if node is not self.node and node.type in syntax.definitions]
        for node in reversed([node for node in inner if _get_defined_name(node) == name]):
            source = source[: node.start_byte - start].rstrip(b" \t") + source[node.end_byte - start :]
        return source.decode("utf-8", "replace")


@functools.cache
def _load_parser(grammar: str, factory: str) -> tree_sitter.Parser:
    return tree_sitter.Parser(tree_sitter.Language(getattr(importlib.import_module(grammar), factory)()))


def split_parts(source: str, syntax: Syntax) -> list[SourcePart]:
    """The top-level parts of a source text, wrappers taken off; what could not be read is a part with an error."""
    tree = _load_parser(syntax.grammar, syntax.factory).parse(source.encode("utf-8", "replace"))
    return [_build_part(node, syntax) for node in _iterate_top_level(tree.root_node, syntax)]


def _iterate_top_level(node: Node, syntax: Syntax) -> Iterator[Node]:
    for child in node.children:
        if child.type == "ERROR" and node.parent is None and child.named_child_count > 1:
            yield from _iterate_top_level(child, syntax)  # whole definitions may lie in it
        elif child.type in syntax.wrappers and (inner := child.named_children):
            yield inner[-1]
        else:
            yield child


def _build_part(node: Node, syntax: Syntax) -> SourcePart:
    names = tuple(_iterate_names(node, syntax, _DEPTH))
    text = (node.text or b"").decode("utf-8", "replace")
    inner = node.named_children[0].type if node.named_children else ""
    return SourcePart(node, text, node.type, inner, names, node.has_error or node.is_missing)


def _iterate_names(node: Node, syntax: Syntax, depth: int) -> Iterator[str]:
    if node.type in syntax.definitions:
        if (name := _get_defined_name(node)) is not None:
            yield name
        return
    if depth:
        for child in node.named_children:
            yield from _iterate_names(child, syntax, depth - 1)


def _get_defined_name(node: Node) -> str | None:
    """The name that a definition gives: its field `name`, or the innermost of nested declarators."""
    found = node.child_by_field_name("name")
    inner: Node | None = node
    while found is None and inner is not None:
        inner = inner.child_by_field_name("declarator")
        if inner is not None and inner.child_by_field_name("declarator") is None:
            found = inner
    return None if found is None else (found.text or b"").decode("utf-8", "replace")


def has_empty_body(part: SourcePart, syntax: Syntax) -> bool:
    """Whether a definition has a body with nothing but comments."""
    bodies = [body for node in _walk(part.node) if (body := node.child_by_field_name("body")) is not None]
    return bool(bodies) and all(child.type in syntax.comments for child in bodies[0].named_children)


def _walk(node: Node, without: tuple[str, ...] = ()) -> Iterator[Node]:
    """The node and what is below it, but for nodes whose type holds one of the words in `without`."""
    stack = [node]
    while stack:
        current = stack.pop()
        if not any(word in current.type for word in without):
            yield current
            stack.extend(reversed(current.children))
