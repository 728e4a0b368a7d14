"""Plain data as text and back: None, bool, int, float, str, bytes, range, list, tuple, dict, set, frozenset, nested.

Only these exact types are written. A subclass may run the project's code when it is read, so it is refused, and so is
a list, dict or set that occurs twice: as literals the two would be separate objects. The text of a value is always the
same, so equal texts mean equal values of equal types.
"""

from __future__ import annotations

import json
from typing import Any

MAX_PARTS = 400
MAX_CHARS = 4000
MAX_DEPTH = 12
MAX_BITS = 1024


class NotPlainError(Exception):
    """A value that is not plain data or is too large; the message says which."""


def write(value: Any) -> str:
    """The text of a value. Raises NotPlainError."""
    text = json.dumps(_Writer().tree(value, 0), separators=(",", ":"), ensure_ascii=True)
    if len(text) > 2 * MAX_CHARS:
        raise NotPlainError("too large")
    return text


def read(text: str) -> Any:
    """The value of a text. Raises ValueError for a text that `write` cannot have written."""
    try:
        return _value(json.loads(text))
    except (TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"not a written value: {error}") from None


class _Writer:
    def __init__(self) -> None:
        self.parts = 0
        self.chars = 0
        self.seen: set[int] = set()

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
        if kind not in (list, tuple, dict, set, frozenset):
            raise NotPlainError(f"a {kind.__name__}")
        if len(value) > MAX_PARTS:
            raise NotPlainError("too large")
        if kind in (list, dict, set):
            if id(value) in self.seen:
                raise NotPlainError("one object in two places")
            self.seen.add(id(value))
        if kind is dict:
            return {"dict": [[self.tree(k, depth + 1), self.tree(v, depth + 1)] for k, v in value.items()]}
        items = [self.tree(item, depth + 1) for item in value]
        if kind is list:
            return items
        if kind is tuple:
            return {"tuple": items}
        return {kind.__name__: sorted(items, key=json.dumps)}

    def _count(self, chars: int) -> None:
        self.chars += chars
        if self.chars > MAX_CHARS:
            raise NotPlainError("too large")


def _value(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_value(item) for item in tree]
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
        return {_value(key): _value(item) for key, item in body}
    return {"tuple": tuple, "set": set, "frozenset": frozenset}[tag](_value(item) for item in body)
