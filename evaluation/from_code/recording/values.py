"""Values as text: plain data, and objects as data (class and state), nested, with identity.

Plain are None, bool, int, float, str, bytes, range, list, tuple, dict, set and frozenset of exactly these types. An
object is written as its class, by name, and its state: what its builtin base holds, its `__dict__` and its slots, read
through the descriptors of Python itself. Nothing here runs code of the project, so a class may overload what it
likes. An object that occurs twice is written once, with a number, and then referred to. The text of a value is always
the same, so equal texts mean equal values.

`read` rebuilds the objects, where their classes exist; `read_plain` keeps each as an `OpaqueObject` with its
tree. `serialize_plain` writes plain data alone.
"""

from __future__ import annotations

import json
from json.encoder import encode_basestring_ascii as encode
from typing import Any

from . import objects

MAX_PARTS = 800
MAX_CHARS = 4000
MAX_DEPTH = 24
MAX_BITS = 1024
_CONTAINERS = (list, tuple, dict, set, frozenset)


class UnwritableError(Exception):
    """A value that cannot be written or is too large; the message says which. `parts` is the number written."""

    def __init__(self, message: str, parts: int = 0) -> None:
        super().__init__(message)
        self.parts = parts


class OpaqueObject:
    """An object as `read_plain` returns it: its tree, which `serialize` writes back unchanged."""

    def __init__(self, tree: Any) -> None:
        self.tree = tree


def serialize(value: Any) -> str:
    """The text of a value. Raises UnwritableError."""
    return serialize_counted(value)[0]


def serialize_plain(value: Any) -> str:
    """The text of plain data, without identity: what occurs twice is written twice. Raises UnwritableError."""
    return serialize_counted(value, plain=True)[0]


def serialize_counted(value: Any, plain: bool = False) -> tuple[str, int]:
    """The text of a value and the number of its parts. Raises UnwritableError."""
    writer = _Writer(plain)
    try:
        writer.write(value)
        text = writer.build_text()
        if len(text) > 4 * MAX_CHARS:
            raise UnwritableError("too large")
    except (UnwritableError, objects.UnwritableObjectError) as error:
        raise UnwritableError(str(error), writer.parts) from None
    return text, writer.parts


def read(text: str) -> Any:
    """The value of a text, objects rebuilt from their classes. Raises ValueError for a text that is not one of
    `serialize`, or cannot be rebuilt; or ImportError."""
    try:
        reader = objects.ObjectReader(_build_plain)
        value = reader.build_value(json.loads(text))
        reader.finish()
        return value
    except (TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a written value: {error}") from None
    except objects.UnwritableObjectError as reason:
        raise ValueError(str(reason)) from None


def read_plain(text: str) -> Any:
    """The value of a text; what is not plain data is `OpaqueObject`. Raises ValueError for a text that `serialize`
    cannot have written."""

    def build(tree: Any) -> Any:
        if isinstance(tree, dict) and not tree.keys() <= _PLAIN_TAGS:
            return OpaqueObject(tree)
        return _build_plain(tree, build)

    try:
        return build(json.loads(text))
    except (TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"not a written value: {error}") from None


def is_plain(text: str) -> bool:
    """Whether a text is plain data alone."""

    def is_plain_tree(tree: Any) -> bool:
        if isinstance(tree, list):
            return all(map(is_plain_tree, tree))
        if isinstance(tree, dict):
            ((tag, body),) = tree.items() if len(tree) == 1 else (("", None),)
            return tag in _PLAIN_TAGS and is_plain_tree(body)
        return True

    return is_plain_tree(json.loads(text))


class _Writer:
    """Writes one value as pieces of its text."""

    def __init__(self, plain: bool) -> None:
        self.plain = plain
        self.parts = 0
        self.chars = 0
        self.out: list[str] = []
        self.seen: dict[int, int] = {}  # the number of each object's span, by id
        self.spans: list[tuple[int, int]] = []  # where an object's text begins and ends in `out`: empty pieces
        self.refs: list[tuple[int, int]] = []  # the piece of a reference, and the number of the span
        self.temporaries: list[Any] = []  # objects that exist only for this text, so that no id is used twice
        self.in_set = 0
        self.depth = 0
        self.opaque = False

    def build_text(self) -> str:
        """The text of what was written."""
        if self.refs:
            if self.opaque:  # its tree has numbers of its own, from another text
                raise UnwritableError("one object in two places")
            spans = sorted({self.spans[span] for _, span in self.refs})  # numbers are in the order of the text
            numbers = {span: number for number, span in enumerate(spans, 1)}
            for (start, end), number in numbers.items():
                self.out[start], self.out[end] = f'{{"number":[{number},', "]}"
            for piece, span in self.refs:
                self.out[piece] = f'{{"ref":{numbers[self.spans[span]]}}}'
        return "".join(self.out)

    def write(self, value: Any) -> None:
        """Append the value as JSON: None, booleans, integers, strings and lists as they are, anything else as an object
        with one key."""
        self.parts += 1
        if self.parts > MAX_PARTS or self.depth > MAX_DEPTH:
            raise UnwritableError("too large")
        kind = type(value)
        if kind is str:
            self._add_chars(len(value))
            self.out.append(encode(value))
        elif value is None:
            self.out.append("null")
        elif kind is bool:
            self.out.append("true" if value else "false")
        elif kind is int:
            if value.bit_length() > MAX_BITS:
                raise UnwritableError("too large")
            self.out.append(repr(value))
        elif kind is float:
            self.out.append(f'{{"float":"{value!r}"}}')
        elif kind is bytes:
            self._add_chars(len(value))
            self.out.append(f'{{"bytes":"{value.hex()}"}}')
        else:
            self.depth += 1
            self._write_compound(value, kind)
            self.depth -= 1

    def _write_compound(self, value: Any, kind: type) -> None:
        if kind in _CONTAINERS:
            self._write_container(value, kind)
        elif kind is range:
            self._write_parts("range", (value.start, value.stop, value.step))
        elif kind is OpaqueObject:
            self.opaque = True
            self.out.append(json.dumps(value.tree, separators=(",", ":"), ensure_ascii=True))
        elif self.plain:
            raise UnwritableError(f"a {kind.__name__}")
        elif (named := objects.write_by_name(value)) is not None:
            self.out.append(named)
        elif not self._refer(value):
            self.temporaries.append(value)  # a bound method exists only while it is looked at
            span = self._open(value)
            objects.write_state(value, self.write, self.out, self.temporaries)
            self._close(span)

    def _write_container(self, value: Any, kind: type) -> None:
        if len(value) > MAX_PARTS:
            raise UnwritableError("too large")
        if kind is tuple:
            self._write_parts("tuple", value)
            return
        if kind is frozenset:
            self._write_set(value, "frozenset")
            return
        if self._refer(value):
            return
        span = self._open(value)
        if kind is list:
            objects.write_all(value, self.write, self.out)
        elif kind is set:
            self._write_set(value, "set")
        else:
            separator = '{"dict":['
            for key, item in value.items():
                self.out.append(separator + "[")
                self.write(key)
                self.out.append(",")
                self.write(item)
                self.out.append("]")
                separator = ","
            self.out.append("]}" if value else '{"dict":[]}')
        self._close(span)

    def _write_parts(self, tag: str, parts: Any) -> None:
        self.out.append(f'{{"{tag}":')
        objects.write_all(parts, self.write, self.out)
        self.out.append("}")

    def _write_set(self, value: Any, tag: str) -> None:
        """Append the items in the order of their texts."""
        start = len(self.out)
        items = []
        self.in_set += 1
        for item in value:
            begin, first_span = len(self.out), len(self.spans)
            self.write(item)
            pieces = self.out[begin:]
            items.append(("".join(pieces), pieces, begin, first_span, len(self.spans)))
        self.in_set -= 1
        del self.out[start:]
        self.out.append(f'{{"{tag}":[')
        items.sort(key=lambda item: item[0])
        for position, (_, pieces, begin, first_span, end_span) in enumerate(items):
            if position:
                self.out.append(",")
            moved = len(self.out) - begin
            for span in range(first_span, end_span):
                self.spans[span] = (self.spans[span][0] + moved, self.spans[span][1] + moved)
            self.out += pieces
        self.out.append("]}")

    def _open(self, value: Any) -> int:
        """The number of the span of an object whose text begins here."""
        span = self.seen[id(value)] = len(self.spans)
        self.spans.append((len(self.out), 0))
        self.out.append("")
        return span

    def _close(self, span: int) -> None:
        self.spans[span] = (self.spans[span][0], len(self.out))
        self.out.append("")

    def _refer(self, value: Any) -> bool:
        """Whether the object has a text already; then a reference to it is appended."""
        span = self.seen.get(id(value))
        if span is None or self.plain:
            return False
        if self.in_set:  # the order of a set's items depends on their texts, and these on the numbers
            raise UnwritableError("one object in two places")
        self.refs.append((len(self.out), span))
        self.out.append("")
        return True

    def _add_chars(self, chars: int) -> None:
        self.chars += chars
        if self.chars > MAX_CHARS:
            raise UnwritableError("too large")


_PLAIN_TAGS = frozenset(("float", "bytes", "range", "dict", "tuple", "set", "frozenset"))


def _build_plain(tree: Any, value: Any) -> Any:
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
