"""Source text as tree-sitter reads it: its top-level parts, what they define, and where syntax errors are."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from dataclasses import dataclass

import tree_sitter
from tree_sitter import Node

from evaluation.languages.base import Syntax

_LATER = ("function", "method", "class", "lambda", "closure")
_DEPTH = 4
"""How deep below a top-level node a definition may be: export, declaration, declarator."""


@dataclass(frozen=True, slots=True)
class Part:
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
        return any(not node.named_children and node.text == wanted for node in _walk(self.node, _LATER))

    def without(self, name: str, syntax: Syntax) -> str:
        """Its text without definitions of this name inside it."""
        source, start = self.text.encode("utf-8", "replace"), self.node.start_byte
        inner = [node for node in _walk(self.node) if node is not self.node and node.type in syntax.functions]
        for node in reversed([node for node in inner if _name(node) == name]):
            source = source[: node.start_byte - start].rstrip(b" \t") + source[node.end_byte - start :]
        return source.decode("utf-8", "replace")


@functools.cache
def _parser(grammar: str, factory: str) -> tree_sitter.Parser:
    return tree_sitter.Parser(tree_sitter.Language(getattr(importlib.import_module(grammar), factory)()))


def parts(source: str, syntax: Syntax) -> list[Part]:
    """The top-level parts of a source text, wrappers taken off; what could not be read is a part with an error."""
    tree = _parser(syntax.grammar, syntax.factory).parse(source.encode("utf-8", "replace"))
    return [_part(node, syntax) for node in _top_level(tree.root_node, syntax)]


def _top_level(node: Node, syntax: Syntax) -> Iterator[Node]:
    for child in node.children:
        if child.type == "ERROR" and node.parent is None and child.named_child_count > 1:
            yield from _top_level(child, syntax)  # whole definitions may lie in it
        elif child.type in syntax.wrappers and (inner := child.named_children):
            yield inner[-1]
        else:
            yield child


def _part(node: Node, syntax: Syntax) -> Part:
    names = tuple(_names(node, syntax, _DEPTH))
    text = (node.text or b"").decode("utf-8", "replace")
    inner = node.named_children[0].type if node.named_children else ""
    return Part(node, text, node.type, inner, names, node.has_error or node.is_missing)


def _names(node: Node, syntax: Syntax, depth: int) -> Iterator[str]:
    if node.type in syntax.functions:
        if (name := _name(node)) is not None:
            yield name
        return
    if depth:
        for child in node.named_children:
            yield from _names(child, syntax, depth - 1)


def _name(node: Node) -> str | None:
    """The name that a definition gives: its field `name`, or the innermost of nested declarators."""
    found = node.child_by_field_name("name")
    inner: Node | None = node
    while found is None and inner is not None:
        inner = inner.child_by_field_name("declarator")
        if inner is not None and inner.child_by_field_name("declarator") is None:
            found = inner
    return None if found is None else (found.text or b"").decode("utf-8", "replace")


def body_is_empty(part: Part, syntax: Syntax) -> bool:
    """Whether a definition does nothing: it has no body, or one with comments alone."""
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
