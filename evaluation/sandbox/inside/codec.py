"""Frames and plain data between the guest (untrusted) and the checker (trusted).

A frame is four bytes of length, big-endian, and that many bytes of JSON. Values cross as data of the types listed
in `plain` and `shared` only: no pickle, marshal, eval or repr, so a reply can carry a wrong value and nothing else.
JSON carries None, bool, list, ordinary text and integers up to 2**53; every other type is an object with one key that
names it, for instance `{"tuple": [1, 2]}`. `{"ref": 3}` is the object that both sides know as number 3.
"""

from __future__ import annotations

import json
import os
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from functools import partial
from typing import Any

from evaluation.sandbox.inside.plain import (
    READERS,
    SAFE_INT,
    SURROGATE,
    WRITERS,
    CodecError,
    check_list,
    read_hex,
    read_pairs,
    read_unique,
)
from evaluation.sandbox.inside.shared import MUTABLE, SharedObjects, find_mutable_base

MAX_FRAME = 2**25
"""Largest frame of values or of a program, bytes (4 MiB of program text can be 24 MiB in JSON)."""
MAX_NODES = 1_250_000
MAX_DEPTH = 150
_FACTORIES: dict[str, type] = {kind.__name__: kind for kind in (int, float, str, bool, list, tuple, dict, set)}
"""What a defaultdict may make; one that makes something else crosses without its factory."""


def encode(value: Any, shared: SharedObjects | None = None) -> Any:
    """Return the JSON form of a value; subclasses of the types here are flattened to their base's value.

    A mutable object joins `shared`, or crosses as a reference where it is there already. Raises CodecError for any
    other type and for values above MAX_NODES or MAX_DEPTH; `shared` is then as it was.
    """
    return _encode_or_roll_back(lambda writer: writer.walk(value, 0), SharedObjects() if shared is None else shared)


def decode(form: Any, shared: SharedObjects | None = None) -> Any:
    """Return the value of a JSON form. Raises CodecError for an invalid form."""
    return _Decoder(SharedObjects() if shared is None else shared).walk(form, 0)


def encode_changes(shared: SharedObjects) -> list[list[Any]]:
    """Return [number, form] of each object whose content changed since the last mark.

    The side that owns iterators also numbers parts of them that are not plain data; on the other side such parts
    raise CodecError.
    """
    changes: list[list[Any]] = []
    for number, item in shared.iterate_changed():
        content = partial(_Encoder.encode_content, item=item, depth=0)
        changes.append([number, _encode_or_roll_back(content, shared, number_all=True)])
    return changes


def decode_changes(forms: Any, shared: SharedObjects) -> None:
    """Change objects in place to the contents that the other side reports. Raises CodecError for any other form."""
    for form in check_list(forms):
        number, content = check_list(form, 2)
        _Decoder(shared).change(number, content)


def dump(message: Any, limit: int = MAX_FRAME) -> bytes:
    """Return the frame of a JSON message. Raises CodecError above `limit` bytes."""
    body = _to_json(message).encode("ascii")
    if len(body) > limit:
        raise CodecError(f"the value takes more than {limit} bytes")
    return struct.pack(">I", len(body)) + body


def parse(body: bytes) -> dict[str, Any]:
    """Return the JSON object in the body of a frame. Raises CodecError unless it is one and holds no float."""
    try:
        message = _from_json(body.decode("ascii"))
    except (ValueError, RecursionError) as error:
        raise CodecError(f"a frame is not the JSON expected here ({type(error).__name__})") from None
    if type(message) is not dict:
        raise CodecError("a frame is not a JSON object")
    return message


def write(descriptor: int, frame: bytes) -> None:
    """Write a whole frame to a blocking descriptor."""
    view = memoryview(frame)
    while view:
        view = view[os.write(descriptor, view) :]


def read(descriptor: int) -> dict[str, Any] | None:
    """Return the next message, or None where the other side has ended. Raises CodecError for an invalid frame."""
    header = _read_exactly(descriptor, 4)
    if header is None:
        return None
    (length,) = struct.unpack(">I", header)
    if length > MAX_FRAME:
        raise CodecError(f"a frame announces {length} bytes, more than {MAX_FRAME}")
    body = _read_exactly(descriptor, length)
    return None if body is None else parse(body)


def _read_exactly(descriptor: int, count: int) -> bytes | None:
    parts: list[bytes] = []
    while count:
        part = os.read(descriptor, min(count, 65536))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _parse_int(text: str) -> int:
    if len(text) > 17 or abs(int(text)) > SAFE_INT:
        raise CodecError("a bare integer is beyond 2**53")
    return int(text)


def _refuse(_text: str) -> Any:
    raise CodecError("a bare float or constant")


# json.dumps and json.loads would create these for every frame.
_to_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_from_json = json.JSONDecoder(parse_int=_parse_int, parse_float=_refuse, parse_constant=_refuse).decode


def _encode_or_roll_back(write_one: Callable[[_Encoder], Any], shared: SharedObjects, number_all: bool = False) -> Any:
    count = shared.count
    try:
        return write_one(_Encoder(shared, number_all))
    except BaseException as error:
        shared.truncate(count)
        if isinstance(error, RecursionError):
            raise CodecError("the value is nested deeper than this process can follow") from None
        raise


class OpaquePart:
    """A part of the candidate's that is not plain data, in an object that the test passed; equal to no value."""


class _ValueLimits:
    """The limits of one value."""

    def __init__(self, shared: SharedObjects) -> None:
        self._shared = shared
        self._nodes = 0

    def _count(self, parts: int, depth: int) -> None:
        self._nodes += parts
        if self._nodes > MAX_NODES:
            raise CodecError(f"the value has more than {MAX_NODES} parts")
        if depth > MAX_DEPTH:
            raise CodecError(f"the value is nested deeper than {MAX_DEPTH}")


class _Encoder(_ValueLimits):
    """Encodes one value. `number_all`: on the owning side, parts that are not plain data cross as numbers."""

    def __init__(self, shared: SharedObjects, number_all: bool) -> None:
        super().__init__(shared)
        self._numbers_all = number_all and shared.owns_iterators

    def walk(self, item: Any, depth: int) -> Any:
        """Return the form of a value."""
        self._count(1, depth)
        kind = type(item)
        if item is None or kind is bool:
            return item
        if kind in MUTABLE:
            return self._encode_object(item, depth)
        write_one = WRITERS.get(kind)
        if write_one is None:
            if find_mutable_base(kind) is not None or _is_iterator(kind):
                return self._encode_object(item, depth)
            write_one = next((WRITERS[base] for base in kind.__mro__ if base in WRITERS), None)
        if write_one is None:
            return self._encode_object(item, depth)
        return write_one(item, lambda part: self.walk(part, depth + 1))

    def encode_content(self, item: Any, depth: int) -> Any:
        """Return the form of a mutable object's content."""
        base: Any = find_mutable_base(type(item))
        if base is None:
            return {"iterator" if _is_iterator(type(item)) else "opaque": None}
        if base is list:
            return self._encode_list(list(list.__iter__(item)), depth)
        if base is bytearray:
            return {"bytearray": bytearray.hex(item)}
        if not issubclass(base, dict):
            parts = self._encode_list(list(base.__iter__(item)), depth)
            return {"set": parts} if base is set else {"deque": [item.maxlen, parts]}
        pairs = [[self.walk(key, depth + 1), self.walk(value, depth + 1)] for key, value in base.items(item)]
        if base is defaultdict:
            made = item.default_factory
            return {"defaultdict": [next((name for name, kind in _FACTORIES.items() if kind is made), None), pairs]}
        return {base.__name__: pairs}

    def _encode_object(self, item: Any, depth: int) -> Any:
        number = self._shared.find_number(item)
        if number is not None:
            return {"ref": number}
        kind = type(item)
        if find_mutable_base(kind) is None and not (
            self._numbers_all or (self._shared.owns_iterators and _is_iterator(kind))
        ):
            raise CodecError(f"a value of type {kind.__name__!s:.80} is not plain data")
        self._shared.add(item)
        return self.encode_content(item, depth)

    def _encode_list(self, parts: list[Any], depth: int) -> list[Any]:
        kinds = set(map(type, parts))
        # Long lists nearly always have one simple type; then no part needs a call.
        if (kinds == {int} and min(parts) >= -SAFE_INT and max(parts) <= SAFE_INT) or (
            kinds == {str} and not any(map(SURROGATE.search, parts))
        ):
            self._count(len(parts), depth + 1)
            return parts
        return [self.walk(part, depth + 1) for part in parts]


def _is_iterator(kind: type) -> bool:
    return hasattr(kind, "__next__") and hasattr(kind, "__iter__")


class _Decoder(_ValueLimits):
    """Decodes one value; the guest may send any JSON."""

    def walk(self, form: Any, depth: int) -> Any:
        """Return the value of a form."""
        self._count(1, depth)
        if form is None or type(form) in (bool, int, str):
            return form
        tag, body = ("list", form) if type(form) is list else _split_tag(form)
        if tag == "ref":
            return self._get_known(body)
        if tag in ("iterator", "opaque") and self._shared.make_proxy is not None:
            created: Any = OpaquePart() if tag == "opaque" else self._shared.make_proxy(self._shared.count)
            self._shared.add(created)
            return created
        if tag in _EMPTY:
            made = _EMPTY[tag](body)
            self._shared.add(made)
            self._fill(made, tag, body, depth)
            return made
        if tag in READERS:
            return READERS[tag](body, lambda part: self.walk(part, depth + 1))
        raise CodecError("a value has an unknown tag")

    def change(self, number: Any, form: Any) -> None:
        """Give a known object the content of a form."""
        item = self._get_known(number)
        base: Any = find_mutable_base(type(item))
        tag, body = ("list", form) if type(form) is list else _split_tag(form)
        if base is None or tag != base.__name__:
            raise CodecError("a change of an object to another type")
        base.clear(item)
        self._fill(item, tag, body, 0)

    def _get_known(self, number: Any) -> Any:
        try:
            return self._shared.get(number)
        except KeyError:
            raise CodecError("a reference to no known object") from None

    def _fill(self, item: Any, tag: str, body: Any, depth: int) -> None:
        def walk(part: Any) -> Any:
            return self.walk(part, depth + 1)

        if tag == "bytearray":
            bytearray.extend(item, read_hex(body))
        elif tag == "list":
            if set(map(type, check_list(body))) <= {int, str, bool, type(None)}:
                self._count(len(body), depth + 1)
                list.extend(item, body)
            else:
                list.extend(item, map(walk, body))
        elif tag == "set":
            set.update(item, read_unique(set, [walk(part) for part in check_list(body)]))
        elif tag == "deque":
            deque.extend(item, [walk(part) for part in check_list(check_list(body, 2)[1])])
        else:
            pairs = read_pairs(check_list(body, 2)[1] if tag == "defaultdict" else body, walk)
            base: Any = find_mutable_base(type(item))
            for key, value in read_unique(dict, pairs).items():
                base.__setitem__(item, key, value)


def _split_tag(form: Any) -> tuple[str, Any]:
    if type(form) is not dict or len(form) != 1:
        raise CodecError("a value is not plain data")
    ((tag, body),) = form.items()
    return tag, body


def _create_empty_deque(body: Any) -> Any:
    length = check_list(body, 2)[0]
    if length is not None and (type(length) is not int or not 0 <= length <= SAFE_INT):
        raise CodecError("a deque has no such length")
    return deque(maxlen=length)


def _create_empty_defaultdict(body: Any) -> Any:
    name = check_list(body, 2)[0]
    if name is not None and (type(name) is not str or name not in _FACTORIES):
        raise CodecError("a defaultdict makes no such type")
    return defaultdict(None if name is None else _FACTORIES[name])


_EMPTY: dict[str, Callable[[Any], Any]] = {
    "list": lambda _body: [],
    "dict": lambda _body: {},
    "set": lambda _body: set(),
    "bytearray": lambda _body: bytearray(),
    "Counter": lambda _body: Counter(),
    "OrderedDict": lambda _body: OrderedDict(),
    "defaultdict": _create_empty_defaultdict,
    "deque": _create_empty_deque,
}
