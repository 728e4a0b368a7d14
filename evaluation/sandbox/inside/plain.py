"""Immutable plain data: each type as JSON and back.

Only these types and the mutable ones of `shared` can cross. A reader gets untrusted JSON from the guest and builds
exactly its type from it or raises CodecError; it runs no code but the constructors below.
"""

from __future__ import annotations

import datetime
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

Walk = Callable[[Any], Any]
"""Writes or reads one part of a value."""

SAFE_INT = 2**53
SURROGATE = re.compile("[\ud800-\udfff]")
_HEX_INT = re.compile(r"-?0x[0-9a-f]+\Z")
_HEX_FLOAT = re.compile(r"[0-9a-f]{16}\Z")
_DECIMAL = re.compile(r"-?(?:\d+(?:\.\d*)?(?:E[+-]?\d{1,18})?|Infinity|s?NaN\d*)\Z", re.ASCII)


class CodecError(ValueError):
    """A value that is not plain data, or an invalid frame."""


def check_list(body: Any, length: int | None = None) -> list[Any]:
    """Return the body if it is a list (of that length). Raises CodecError."""
    if type(body) is not list or length not in (None, len(body)):
        raise CodecError("a tagged value has no list of the right length")
    return body


def _write_int(item: Any, _walk: Walk) -> Any:
    number = int.__int__(item)
    return number if -SAFE_INT <= number <= SAFE_INT else {"int": hex(number)}


def _write_str(item: Any, _walk: Walk) -> Any:
    text = str.__str__(item)
    # JSON would join two lone surrogates to one character, so text with surrogates crosses as bytes.
    return {"str": text.encode("utf-8", "surrogatepass").hex()} if SURROGATE.search(text) else text


def _format_bits(number: Any) -> str:
    return struct.pack(">d", float.__float__(number)).hex()


def _write_complex(item: Any, _walk: Walk) -> Any:
    return {"complex": [_format_bits(complex.real.__get__(item)), _format_bits(complex.imag.__get__(item))]}


def _write_memoryview(item: Any, _walk: Walk) -> Any:
    if item.format != "B" or item.ndim != 1:
        raise CodecError("a memoryview of other than bytes is not plain data")
    return {"memoryview": item.tobytes().hex()}


def _encode_clock(item: Any) -> list[Any]:
    offset = None if item.tzinfo is None else item.utcoffset()
    zone = None if offset is None else [offset.days, offset.seconds, offset.microseconds]
    return [item.hour, item.minute, item.second, item.microsecond, item.fold, zone]


def _build_parts_writer(tag: str) -> Callable[[Any, Walk], Any]:
    return lambda item, walk: {tag: [walk(part) for part in item]}


_EMPTY: dict[Any, Any] = {}

WRITERS: dict[type, Callable[[Any, Walk], Any]] = {
    int: _write_int,
    str: _write_str,
    float: lambda item, _walk: {"float": _format_bits(item)},
    tuple: lambda item, walk: {"tuple": [walk(part) for part in tuple.__iter__(item)]},
    frozenset: lambda item, walk: {"frozenset": [walk(part) for part in frozenset.__iter__(item)]},
    bytes: lambda item, _walk: {"bytes": bytes.hex(item)},
    memoryview: _write_memoryview,
    complex: _write_complex,
    range: lambda item, walk: {"range": [walk(item.start), walk(item.stop), walk(item.step)]},
    Decimal: lambda item, _walk: {"Decimal": Decimal.__str__(item)},
    Fraction: lambda item, walk: {"Fraction": [walk(item.numerator), walk(item.denominator)]},
    datetime.datetime: lambda item, _walk: {"datetime": [item.year, item.month, item.day, *_encode_clock(item)]},
    datetime.date: lambda item, _walk: {"date": [item.year, item.month, item.day]},
    datetime.time: lambda item, _walk: {"time": _encode_clock(item)},
    datetime.timedelta: lambda item, _walk: {"timedelta": [item.days, item.seconds, item.microseconds]},
    type(_EMPTY.keys()): _build_parts_writer("dict_keys"),
    type(_EMPTY.values()): _build_parts_writer("dict_values"),
    type(_EMPTY.items()): _build_parts_writer("dict_items"),
}


def _read_int(body: Any, _walk: Walk) -> Any:
    if type(body) is not str or not _HEX_INT.match(body):
        raise CodecError("an integer is not in hex")
    return int(body, 16)


def read_hex(body: Any) -> bytes:
    """Return the bytes of hexadecimal text. Raises CodecError."""
    if type(body) is not str:
        raise CodecError("bytes are not in hex")
    try:
        return bytes.fromhex(body)
    except ValueError:
        raise CodecError("bytes are not in hex") from None


def _read_str(body: Any, _walk: Walk) -> Any:
    try:
        return read_hex(body).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise CodecError("a text is not UTF-8") from None


def _read_float(body: Any, _walk: Walk | None = None) -> Any:
    if type(body) is not str or not _HEX_FLOAT.match(body):
        raise CodecError("a float is not 16 hex digits")
    return struct.unpack(">d", bytes.fromhex(body))[0]


def _read_complex(body: Any, _walk: Walk) -> Any:
    real, imaginary = check_list(body, 2)
    return complex(_read_float(real), _read_float(imaginary))


def _read_range(body: Any, walk: Walk) -> Any:
    parts = [walk(part) for part in check_list(body, 3)]
    if any(type(part) is not int for part in parts) or parts[2] == 0:
        raise CodecError("a range is not three integers")
    return range(*parts)


def _read_decimal(body: Any, _walk: Walk) -> Any:
    if type(body) is not str or not _DECIMAL.match(body):
        raise CodecError("a decimal number is not in digits")
    return Decimal(body)


def _read_fraction(body: Any, walk: Walk) -> Any:
    parts = [walk(part) for part in check_list(body, 2)]
    if any(type(part) is not int for part in parts) or parts[1] < 1:
        raise CodecError("a fraction is not two integers")
    return Fraction(*parts)


def _read_integers(body: Any, length: int) -> list[int]:
    if any(type(part) is not int for part in check_list(body, length)):
        raise CodecError("a date or time is not in integers")
    return list(body)


def _build_date_reader(build: Callable[[Any], Any]) -> Callable[[Any, Walk], Any]:
    def read_one(body: Any, _walk: Walk) -> Any:
        try:
            return build(body)
        except (ValueError, OverflowError):
            raise CodecError("there is no such date or time") from None

    return read_one


def _read_clock(body: Any, before: int, build: Any) -> Any:
    whole = check_list(body, before + 6)
    *numbers, fold = _read_integers(whole[:-1], before + 5)
    zone = None if whole[-1] is None else datetime.timezone(datetime.timedelta(*_read_integers(whole[-1], 3)))
    return build(*numbers, tzinfo=zone, fold=fold)


def read_unique(build: Callable[[list[Any]], Any], parts: list[Any]) -> Any:
    """Return the set or dict that `build` makes of the parts. Raises CodecError where they repeat or have no hash."""
    try:
        value = build(parts)
    except TypeError:
        raise CodecError("a set or dict has a part that cannot be hashed") from None
    if len(value) != len(parts):
        raise CodecError("a set or dict has equal parts")
    return value


def read_pairs(body: Any, walk: Walk) -> list[Any]:
    """Return the items of a dict. Raises CodecError."""
    return [(walk(key), walk(value)) for key, value in (check_list(pair, 2) for pair in check_list(body))]


def _read_items(body: Any, walk: Walk) -> Any:
    pairs = [walk(part) for part in check_list(body)]
    if any(type(pair) is not tuple or len(pair) != 2 for pair in pairs):
        raise CodecError("a dict item is not a pair")
    return read_unique(dict, pairs).items()


READERS: dict[str, Callable[[Any, Walk], Any]] = {
    "int": _read_int,
    "str": _read_str,
    "float": _read_float,
    "tuple": lambda body, walk: tuple([walk(part) for part in check_list(body)]),
    "frozenset": lambda body, walk: read_unique(frozenset, [walk(part) for part in check_list(body)]),
    "bytes": lambda body, _walk: read_hex(body),
    "memoryview": lambda body, _walk: memoryview(read_hex(body)),
    "complex": _read_complex,
    "range": _read_range,
    "Decimal": _read_decimal,
    "Fraction": _read_fraction,
    "datetime": _build_date_reader(lambda body: _read_clock(body, 3, datetime.datetime)),
    "date": _build_date_reader(lambda body: datetime.date(*_read_integers(body, 3))),
    "time": _build_date_reader(lambda body: _read_clock(body, 0, datetime.time)),
    "timedelta": _build_date_reader(lambda body: datetime.timedelta(*_read_integers(body, 3))),
    "dict_keys": lambda body, walk: read_unique(dict.fromkeys, [walk(part) for part in check_list(body)]).keys(),
    "dict_values": lambda body, walk: dict(enumerate([walk(part) for part in check_list(body)])).values(),
    "dict_items": _read_items,
}
