"""Frames and plain data between the guest (untrusted) and the checker (trusted).

A frame is four bytes of length, big-endian, and that many bytes of JSON. Values cross as exact builtins only:
no pickle, marshal, eval or repr, so a reply can carry a wrong value and nothing else. JSON carries None,
bool, list, ordinary text and integers up to 2**53; every other type is an object with one key that names it,
for instance `{"tuple": [1, 2]}`.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Callable
from typing import Any

MAX_FRAME = 2**20
"""Largest frame of values, bytes."""
MAX_CODE_FRAME = 2**23
"""Largest frame that carries a program, bytes (4 MiB of text can double in JSON)."""
MAX_NODES = 200_000
MAX_DEPTH = 60
_SAFE_INT = 2**53
_HEX_INT = re.compile(r"-?0x[0-9a-f]+\Z")
_HEX_FLOAT = re.compile(r"[0-9a-f]{16}\Z")
_SURROGATE = re.compile("[\ud800-\udfff]")


class CodecError(ValueError):
    """A value that is not plain data, or a frame that breaks a rule."""


def encode(value: Any) -> Any:
    """Return the JSON form of a value; subclasses of builtins are flattened to the base value.

    Raises CodecError for any other type and for values above MAX_NODES or MAX_DEPTH.
    """
    nodes = 0

    def walk(item: Any, depth: int) -> Any:
        nonlocal nodes
        nodes += 1
        if nodes > MAX_NODES:
            raise CodecError(f"the value has more than {MAX_NODES} parts")
        if depth > MAX_DEPTH:
            raise CodecError(f"the value is nested deeper than {MAX_DEPTH}")
        kind = type(item)
        if item is None or kind is bool:
            return item
        write = _WRITERS.get(kind) or next((_WRITERS[base] for base in _WRITERS if base in kind.__mro__), None)
        if write is None:
            raise CodecError(f"a value of type {kind.__name__!s:.80} is not plain data")
        return write(item, lambda part: walk(part, depth + 1))

    return walk(value, 0)


def decode(form: Any) -> Any:
    """Return the value of a JSON form, built of exact builtins. Raises CodecError for what `encode` never writes."""
    nodes = 0

    def walk(item: Any, depth: int) -> Any:
        nonlocal nodes
        nodes += 1
        if nodes > MAX_NODES or depth > MAX_DEPTH:
            raise CodecError("the value is too large or nested too deep")
        if item is None or type(item) in (bool, int, str):
            return item
        if type(item) is list:
            return [walk(part, depth + 1) for part in item]
        if type(item) is not dict or len(item) != 1:
            raise CodecError("a value is no plain data")
        ((tag, body),) = item.items()
        read = _READERS.get(tag)
        if read is None:
            raise CodecError("a value has an unknown tag")
        return read(body, lambda part: walk(part, depth + 1))

    return walk(form, 0)


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
        raise CodecError("a frame is no JSON object")
    return message


def write(descriptor: int, frame: bytes) -> None:
    """Write a whole frame to a blocking descriptor."""
    view = memoryview(frame)
    while view:
        view = view[os.write(descriptor, view) :]


def read(descriptor: int, limit: int = MAX_FRAME) -> dict[str, Any] | None:
    """Return the next message, or None where the other side has gone. Raises CodecError for a hostile frame."""
    header = _read_exactly(descriptor, 4)
    if header is None:
        return None
    (length,) = struct.unpack(">I", header)
    if length > limit:
        raise CodecError(f"a frame announces {length} bytes, more than {limit}")
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
    if len(text) > 17 or abs(int(text)) > _SAFE_INT:
        raise CodecError("a bare integer is beyond 2**53")
    return int(text)


def _refuse(_text: str) -> Any:
    raise CodecError("a bare float or constant")


# json.dumps and json.loads would build these anew for every frame.
_to_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_from_json = json.JSONDecoder(parse_int=_parse_int, parse_float=_refuse, parse_constant=_refuse).decode

Walk = Callable[[Any], Any]


def _write_int(item: Any, _walk: Walk) -> Any:
    number = int.__int__(item)
    return number if -_SAFE_INT <= number <= _SAFE_INT else {"int": hex(number)}


def _write_str(item: Any, _walk: Walk) -> Any:
    text = str.__str__(item)
    # JSON would join two lone surrogates into one character, so text that holds any crosses as bytes.
    return {"str": text.encode("utf-8", "surrogatepass").hex()} if _SURROGATE.search(text) else text


def _bits(number: Any) -> str:
    return struct.pack(">d", float.__float__(number)).hex()


def _write_complex(item: Any, _walk: Walk) -> Any:
    return {"complex": [_bits(complex.real.__get__(item)), _bits(complex.imag.__get__(item))]}


def _write_dict(item: Any, walk: Walk) -> Any:
    return {"dict": [[walk(key), walk(value)] for key, value in dict.items(item)]}


_WRITERS: dict[type, Callable[[Any, Walk], Any]] = {
    int: _write_int,
    str: _write_str,
    float: lambda item, _walk: {"float": _bits(item)},
    list: lambda item, walk: [walk(part) for part in list.__iter__(item)],
    tuple: lambda item, walk: {"tuple": [walk(part) for part in tuple.__iter__(item)]},
    dict: _write_dict,
    set: lambda item, walk: {"set": [walk(part) for part in set.__iter__(item)]},
    frozenset: lambda item, walk: {"frozenset": [walk(part) for part in frozenset.__iter__(item)]},
    bytes: lambda item, _walk: {"bytes": bytes.hex(item)},
    bytearray: lambda item, _walk: {"bytearray": bytearray.hex(item)},
    complex: _write_complex,
    range: lambda item, walk: {"range": [walk(item.start), walk(item.stop), walk(item.step)]},
}


def _list(body: Any) -> list[Any]:
    if type(body) is not list:
        raise CodecError("a tagged value has no list")
    return body


def _read_int(body: Any, _walk: Walk) -> Any:
    if type(body) is not str or not _HEX_INT.match(body):
        raise CodecError("an integer is not in hex")
    return int(body, 16)


def _read_hex(body: Any) -> bytes:
    if type(body) is not str:
        raise CodecError("bytes are not in hex")
    try:
        return bytes.fromhex(body)
    except ValueError:
        raise CodecError("bytes are not in hex") from None


def _read_str(body: Any, _walk: Walk) -> Any:
    try:
        return _read_hex(body).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise CodecError("a text is not UTF-8") from None


def _read_float(body: Any, __walk: Walk | None = None) -> Any:
    if type(body) is not str or not _HEX_FLOAT.match(body):
        raise CodecError("a float is not 16 hex digits")
    return struct.unpack(">d", bytes.fromhex(body))[0]


def _read_complex(body: Any, _walk: Walk) -> Any:
    parts = _list(body)
    if len(parts) != 2:
        raise CodecError("a complex number has two parts")
    return complex(_read_float(parts[0]), _read_float(parts[1]))


def _read_unique(build: Callable[[list[Any]], Any]) -> Callable[[Any, Walk], Any]:
    def read_one(body: Any, walk: Walk) -> Any:
        parts = [walk(part) for part in _list(body)]
        try:
            value = build(parts)
        except TypeError:
            raise CodecError("a set or dict has a part that cannot be hashed") from None
        if len(value) != len(parts):
            raise CodecError("a set or dict has equal parts")
        return value

    return read_one


def _read_dict(body: Any, walk: Walk) -> Any:
    def pair(form: Any) -> Any:
        if len(_list(form)) != 2:
            raise CodecError("a dict item is no pair")
        return walk(form[0]), walk(form[1])

    return _read_unique(dict)([pair(form) for form in _list(body)], lambda item: item)


def _read_range(body: Any, walk: Walk) -> Any:
    parts = [walk(part) for part in _list(body)]
    if len(parts) != 3 or any(type(part) is not int for part in parts) or parts[2] == 0:
        raise CodecError("a range is not three integers")
    return range(*parts)


_READERS: dict[str, Callable[[Any, Walk], Any]] = {
    "int": _read_int,
    "str": _read_str,
    "float": _read_float,
    "tuple": lambda body, walk: tuple([walk(part) for part in _list(body)]),
    "dict": _read_dict,
    "set": _read_unique(set),
    "frozenset": _read_unique(frozenset),
    "bytes": lambda body, _walk: _read_hex(body),
    "bytearray": lambda body, _walk: bytearray(_read_hex(body)),
    "complex": _read_complex,
    "range": _read_range,
}
