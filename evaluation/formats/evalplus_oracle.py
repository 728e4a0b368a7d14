"""How EvalPlus compares results. Its text becomes part of the test of each task in EvalPlus' own form.

A test also calls `canonical_solution`, and nothing here may use more of Python than tests in the checker may.
"""

import copy
import math
from typing import Any

import numpy as np

inf, nan = math.inf, math.nan
_TYPES = (bool, int, float, complex, str, bytes, list, tuple, set, dict)


def copy_arguments(arguments: list[Any]) -> list[Any]:
    """The arguments for one call, which may change them."""
    return copy.deepcopy(arguments)


def show(value: object) -> str:
    """A value in a few words."""
    try:
        return repr(value)[:200]
    except ValueError:  # an integer of more than 4300 digits
        return "a very long number"


def is_close(result: Any, expected: Any, atol: float) -> bool:
    """Whether numbers, or lists or arrays of them, differ by the tolerance at most; never where that is 0."""
    if atol == 0 and (isinstance(expected, float) or _holds_floats(expected)):
        atol = 1e-6
    if atol == 0 or [isinstance(result, kind) for kind in _TYPES] != [isinstance(expected, kind) for kind in _TYPES]:
        return False
    if isinstance(expected, (list, tuple)) and len(result) != len(expected):
        return False
    return bool(np.allclose(result, expected, rtol=1e-07, atol=atol))


def _holds_floats(value: object) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(part, float) for part in value)


def agrees(result: Any, expected: Any, _arguments: list[Any], atol: float) -> bool:
    """Equal, or close."""
    return bool(result == expected) or is_close(result, expected, atol)


def agrees_as_set(result: Any, expected: Any, _arguments: list[Any], atol: float) -> bool:
    """The same items in any order."""
    return set(result) == set(expected) or is_close(result, expected, atol)


def agrees_or_is_zero(result: Any, expected: Any, arguments: list[Any], atol: float) -> bool:
    """Mbpp/295: the sum of the divisors that are smaller than the number, or 0."""
    return agrees(result, expected, arguments, atol) or bool(result == 0)


def agrees_on_surface(result: Any, expected: Any, arguments: list[Any], atol: float) -> bool:
    """Mbpp/581: the height of the pyramid may also be the distance from its base to its apex."""
    edge, height = arguments
    lateral = 4 * (edge * math.sqrt((edge / 2) ** 2 + height**2)) / 2
    return agrees(result, expected, arguments, atol) or bool(abs(result - round(edge**2 + lateral)) <= atol)


def agrees_on_digits(result: Any, expected: Any, arguments: list[Any], atol: float) -> bool:
    """Mbpp/558: the shorter number may also get zeros in front."""
    first, second = map(str, arguments)
    width = max(len(first), len(second))
    distance = sum(abs(int(a) - int(b)) for a, b in zip(first.zfill(width), second.zfill(width), strict=True))
    return agrees(result, expected, arguments, atol) or bool(result == distance)


def is_root(result: Any, _expected: Any, arguments: list[Any], atol: float) -> bool:
    """HumanEval/32: any root of the polynomial."""
    value = sum(factor * math.pow(result, power) for power, factor in enumerate(arguments[0]))
    return bool(abs(value) <= atol)
