"""Values of declared types: their JSON form, which is the same in every language, and when two of them are equal.

An int is a decimal string, so nothing is lost beyond 2**53; a float a number or "nan", "inf", "-inf", "-0"; a dict a
list of pairs; a tuple a list; an absent optional and none are null.
"""

from __future__ import annotations

import math
import re
from typing import Any

from evaluation.languages.types import Type

Json = Any
"""Parsed JSON."""
SPECIAL_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf, "-0": -0.0}
REL_TOLERANCE, ABS_TOLERANCE = 1e-9, 1e-12
"""How far floats may differ where a case names no tolerance."""
MAX_DIGITS = 4000
"""Digits of an int at most."""
_MAX_INT = 10**MAX_DIGITS - 1
_PYTHON: dict[str, type] = {
    **{"none": type(None), "bool": bool, "int": int, "float": float, "str": str},
    **{"list": list, "tuple": tuple, "dict": dict},
}
_WANTED = {
    **{"none": "null", "bool": "true or false", "int": "a decimal string", "str": "a string"},
    **{"list": "a list", "tuple": "a list of {}"},
}
_INT = re.compile(r"-?(?:0|[1-9][0-9]*)")


class ValueFormError(ValueError):
    """A value that does not fit its type; the message says which part of it."""


def to_json(value: object, kind: Type) -> Json:
    """The JSON form of a Python value. Raises ValueFormError for a value of another type."""
    if kind.name == "optional":
        return None if value is None else to_json(value, kind.item)
    if kind.name == "float" and type(value) is int:
        try:
            value = float(value)
        except OverflowError:
            raise ValueFormError(f"{_format_value(value)} is beyond the range of {kind}") from None
    if type(value) is not _PYTHON[kind.name]:
        raise ValueFormError(f"{_format_value(value)} is a {type(value).__name__}, not {kind}")
    if isinstance(value, dict):
        return [[to_json(key, kind.parts[0]), to_json(item, kind.parts[1])] for key, item in value.items()]
    if isinstance(value, tuple):
        if len(value) != len(kind.parts):
            raise ValueFormError(f"{_format_value(value)} has {len(value)} items, {kind} has {len(kind.parts)}")
        return [to_json(item, part) for item, part in zip(value, kind.parts, strict=True)]
    if isinstance(value, list):
        return [to_json(item, kind.item) for item in value]
    if isinstance(value, float):
        return encode_float(value)
    if kind.name == "int" and isinstance(value, int):
        if abs(value) > _MAX_INT:
            raise ValueFormError(f"an int of more than {MAX_DIGITS} digits cannot be in a case")
        return str(value)
    return value


def encode_float(value: float) -> Json:
    """The JSON form of a float."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return "-0" if value == 0 and math.copysign(1, value) < 0 else value


def from_json(form: Json, kind: Type) -> object:
    """The Python value of a JSON form. Raises ValueFormError for a form that does not fit the type."""
    match kind.name:
        case "optional":
            return None if form is None else from_json(form, kind.item)
        case "float":
            return _decode_float(form, kind)
        case "dict":
            return _decode_dict(form, kind)
        case "tuple" if type(form) is list and len(form) == len(kind.parts):
            return tuple(from_json(item, part) for item, part in zip(form, kind.parts, strict=True))
        case "list" if type(form) is list:
            return [from_json(item, kind.item) for item in form]
        case "int" if type(form) is str and len(form) <= MAX_DIGITS + form.startswith("-") and _INT.fullmatch(form):
            return int(form)
        case "none" | "bool" | "str" if type(form) is _PYTHON[kind.name]:
            return form
    raise _build_form_error(form, kind, _WANTED[kind.name].format(len(kind.parts)))


def _build_form_error(form: Json, kind: Type, wanted: str) -> ValueFormError:
    return ValueFormError(f"{_format_value(form)} does not fit {kind}: give {wanted}")


def _decode_float(form: Json, kind: Type) -> object:
    if type(form) is str and form in SPECIAL_FLOATS:
        return SPECIAL_FLOATS[form]
    if type(form) not in (int, float):
        raise _build_form_error(form, kind, 'a number or "nan", "inf", "-inf", "-0"')
    try:
        return float(form)
    except OverflowError:
        raise _build_form_error(form, kind, "a number that a double can hold") from None


def _decode_dict(form: Json, kind: Type) -> object:
    if type(form) is not list or not all(type(pair) is list and len(pair) == 2 for pair in form):
        raise _build_form_error(form, kind, "a list of [key, value] pairs")
    found = {from_json(key, kind.parts[0]): from_json(value, kind.parts[1]) for key, value in form}
    if len(found) != len(form):
        raise _build_form_error(form, kind, "every key once")
    return found


def is_same_value(got: object, expected: object, kind: Type, tolerance: float | None = None) -> bool:
    """Whether two values of a type are equal; floats within the tolerance, relative or absolute; NaN equals NaN.

    A tolerance of 0 asks for the same float, sign of zero included.
    """
    if kind.name == "optional":
        if got is None or expected is None:
            return got is expected
        return is_same_value(got, expected, kind.item, tolerance)
    if isinstance(got, float) and isinstance(expected, float):
        return _is_same_float(got, expected, tolerance)
    if isinstance(got, list) and isinstance(expected, list):
        pairs = zip(got, expected, strict=True)
        return len(got) == len(expected) and all(is_same_value(a, b, kind.item, tolerance) for a, b in pairs)
    if isinstance(got, tuple) and isinstance(expected, tuple):
        return all(is_same_value(*pair, tolerance) for pair in zip(got, expected, kind.parts, strict=True))
    if isinstance(got, dict) and isinstance(expected, dict):
        return got.keys() == expected.keys() and all(
            is_same_value(got[k], expected[k], kind.parts[1], tolerance) for k in got
        )
    return got == expected


def _is_same_float(got: float, expected: float, tolerance: float | None) -> bool:
    if math.isnan(got) or math.isnan(expected):
        return math.isnan(got) and math.isnan(expected)
    if tolerance == 0:
        return got == expected and math.copysign(1, got) == math.copysign(1, expected)
    rel, absolute = (REL_TOLERANCE, ABS_TOLERANCE) if tolerance is None else (tolerance, tolerance)
    return math.isclose(got, expected, rel_tol=rel, abs_tol=absolute)


def _format_value(value: object) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."
