"""Values as text: plain data, and objects as data (class and state), nested, with identity.

Plain are None, bool, int, float, str, bytes, range, list, tuple, dict, set and frozenset of exactly these types. Of an
object are written its class, by name, and its state: what its builtin base holds, its `__dict__` and its slots, read
through the descriptors of Python itself. Nothing here runs code of the project, so a class may overload what it
likes. An object that occurs twice is written once, with a number, and then referred to. The text of a value is always
the same, so equal texts mean equal values.

`read` rebuilds the objects and belongs where their classes are; `read_plain` keeps them as `Opaque` texts.
`write_plain` writes plain data alone.
"""

from __future__ import annotations

import json
from typing import Any

from . import objects

MAX_PARTS = 800
MAX_CHARS = 4000
MAX_DEPTH = 24
MAX_BITS = 1024
_CONTAINERS = (list, tuple, dict, set, frozenset)


class NotPlainError(Exception):
    """A value that cannot be written or is too large; the message says which."""


class Opaque:
    """An object as `read_plain` returns it: its tree, which `write` writes back unchanged."""

    def __init__(self, tree: Any) -> None:
        self.tree = tree


def write(value: Any) -> str:
    """The text of a value. Raises NotPlainError."""
    return write_counted(value)[0]


def write_plain(value: Any) -> str:
    """The text of plain data, without identity: what occurs twice is written twice. Raises NotPlainError."""
    return write_counted(value, plain=True)[0]


def write_counted(value: Any, plain: bool = False) -> tuple[str, int]:
    """The text of a value and the number of its parts. Raises NotPlainError."""
    writer = _Writer(plain)
    try:
        tree = writer.tree(value, 0)
    except objects.NotAnObjectError as error:
        raise NotPlainError(str(error)) from None
    if writer.twice:
        if writer.opaque:  # its numbers are another text's
            raise NotPlainError("one object in two places")
        tree = _Numbering(writer.twice).tree(tree)
    text = json.dumps(tree, separators=(",", ":"), ensure_ascii=True)
    if len(text) > 4 * MAX_CHARS:
        raise NotPlainError("too large")
    return text, writer.parts


def read(text: str) -> Any:
    """The value of a text, objects rebuilt from their classes. Raises ValueError for a text that is not one of
    `write`, or whose objects cannot be rebuilt here."""
    try:
        reader = objects.Reader(_value)
        value = reader.value(json.loads(text))
        reader.finish()
        return value
    except (TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a written value: {error}") from None


def read_plain(text: str) -> Any:
    """The value of a text; what is not plain data is `Opaque`. Raises ValueError for a text that `write` cannot have
    written."""

    def value(tree: Any) -> Any:
        if isinstance(tree, dict) and not tree.keys() <= _PLAIN_TAGS:
            return Opaque(tree)
        return _value(tree, value)

    try:
        return value(json.loads(text))
    except (TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"not a written value: {error}") from None


def is_plain(text: str) -> bool:
    """Whether a text is plain data alone."""

    def plain(tree: Any) -> bool:
        if isinstance(tree, list):
            return all(map(plain, tree))
        if isinstance(tree, dict):
            ((tag, body),) = tree.items() if len(tree) == 1 else (("", None),)
            return tag in _PLAIN_TAGS and plain(body)
        return True

    return plain(json.loads(text))


class _Writer:
    def __init__(self, plain: bool) -> None:
        self.plain = plain
        self.parts = 0
        self.chars = 0
        self.seen: dict[int, Any] = {}  # the tree of each object, by id
        self.twice: set[int] = set()  # ids of trees that are referred to
        self.held: list[Any] = []  # objects that exist only for this text, so that no id is used twice
        self.in_set = 0
        self.opaque = False

    def tree(self, value: Any, depth: int) -> Any:
        """The value as JSON: lists as lists, other types than JSON's as objects with one key."""
        self.parts += 1
        if self.parts > MAX_PARTS or depth > MAX_DEPTH:
            raise NotPlainError("too large")
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is int:
            if value.bit_length() > MAX_BITS:
                raise NotPlainError("too large")
            return value
        if kind is float:
            return {"float": repr(value)}
        if kind is str:
            self._count(len(value))
            return value
        if kind is bytes:
            self._count(len(value))
            return {"bytes": value.hex()}
        if kind is range:
            return {"range": [self.tree(part, depth + 1) for part in (value.start, value.stop, value.step)]}
        if kind is Opaque:
            self.opaque = True
            return value.tree
        if kind in _CONTAINERS:
            return self._container(value, kind, depth)
        if self.plain:
            raise NotPlainError(f"a {kind.__name__}")
        named = objects.by_name(value)
        if named is not None:
            return named
        known = self._known(value)
        if known is not None:
            return known
        self.held.append(value)  # a bound method exists only while it is looked at
        return objects.fill(self._new(value, {}), value, lambda part: self.tree(part, depth + 1), self.held)

    def _container(self, value: Any, kind: type, depth: int) -> Any:
        if len(value) > MAX_PARTS:
            raise NotPlainError("too large")
        if kind in (list, dict, set):
            known = self._known(value)
            if known is not None:
                return known
        if kind is list:
            items = self._new(value, [])
            items.extend(self.tree(item, depth + 1) for item in value)
            return items
        if kind is dict:
            node = self._new(value, {})
            node["dict"] = [[self.tree(k, depth + 1), self.tree(v, depth + 1)] for k, v in value.items()]
            return node
        if kind is tuple:
            return {"tuple": [self.tree(item, depth + 1) for item in value]}
        node = self._new(value, {}) if kind is set else {}
        self.in_set += 1
        node[kind.__name__] = sorted((self.tree(item, depth + 1) for item in value), key=json.dumps)
        self.in_set -= 1
        return node

    def _new(self, value: Any, tree: Any) -> Any:
        self.seen[id(value)] = tree
        return tree

    def _known(self, value: Any) -> Any:
        tree = self.seen.get(id(value))
        if tree is None or self.plain:
            return None
        if self.in_set:  # the order of a set's items depends on their texts, and these on the numbers
            raise NotPlainError("one object in two places")
        self.twice.add(id(tree))
        return {"ref": id(tree)}

    def _count(self, chars: int) -> None:
        self.chars += chars
        if self.chars > MAX_CHARS:
            raise NotPlainError("too large")


class _Numbering:
    """Numbers the objects that are referred to, in the order of the text."""

    def __init__(self, twice: set[int]) -> None:
        self._twice = twice
        self._numbers: dict[int, int] = {}

    def tree(self, node: Any) -> Any:
        if isinstance(node, dict) and "ref" in node:
            return {"ref": self._numbers[node["ref"]]}
        number = self._numbers.setdefault(id(node), len(self._numbers) + 1) if id(node) in self._twice else 0
        if isinstance(node, list):
            copy: Any = [self.tree(item) for item in node]
        elif isinstance(node, dict):
            copy = {tag: self.tree(body) for tag, body in node.items()}
        else:
            return node
        return {"number": [number, copy]} if number else copy


_PLAIN_TAGS = frozenset(("float", "bytes", "range", "dict", "tuple", "set", "frozenset"))


def _value(tree: Any, value: Any) -> Any:
    """The plain value of a tree; `value` reads its parts."""
    if isinstance(tree, list):
        return [value(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    ((tag, body),) = tree.items()
    if tag == "float":
        return float(body)
    if tag == "bytes":
        return bytes.fromhex(body)
    if tag == "range":
        return range(*body)
    if tag == "dict":
        return {value(key): value(item) for key, item in body}
    return {"tuple": tuple, "set": set, "frozenset": frozenset}[tag](value(item) for item in body)
