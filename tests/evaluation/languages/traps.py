"""Twenty tasks whose cases tell languages apart: what is right in Python and wrong in a careless translation of it.

Cases are computed here by the function in Python. Solutions in a language are in `solutions/NAME.EXT`, one file for all
tasks: each task is followed by a right function and one that falls into the trap, both named as the task.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evaluation.datasets import Task
from evaluation.languages.cases import JsonCase, Parameter, Signature
from evaluation.languages.types import parse_type
from evaluation.languages.values import to_json


@dataclass(frozen=True)
class Trap:
    """A task: a function in Python, its types, and the arguments of its cases."""

    function: Callable[..., Any]
    types: tuple[str, ...]  # of the parameters, and last of the result
    calls: list[tuple[Any, ...]]
    raises: bool = False

    def task(self, language: str) -> Task:
        """The task in a language."""
        *kinds, returns = map(parse_type, self.types)
        parameters = tuple(Parameter(f"a{i}", kind) for i, kind in enumerate(kinds))
        signature = Signature(self.function.__name__, parameters, returns)
        cases = []
        for call in self.calls:
            args = tuple(to_json(value, kind) for value, kind in zip(call, kinds, strict=True))
            try:
                cases.append(JsonCase(args, to_json(self.function(*call), returns)))
            except (ValueError, ZeroDivisionError) as error:
                cases.append(JsonCase(args, raises=type(error).__name__))
        name = self.function.__name__
        return Task(f"trap/{name}", "", name, "", "", language=language, signature=signature, cases=tuple(cases))


def floor_division(a: int, b: int) -> int:
    return a // b


def modulo(a: int, b: int) -> int:
    return a % b


def half_to_even(x: float) -> int:
    return round(x)


def sort_numbers(numbers: list[int]) -> list[int]:
    return sorted(numbers)


def sort_by_length(words: list[str]) -> list[str]:
    return sorted(words, key=len)


def reverse_letters(text: str) -> str:
    return text[::-1]


def count_letters(text: str) -> int:
    return len(text)


def last_of(numbers: list[int], n: int) -> list[int]:
    return numbers[-n:]


def product(numbers: list[int]) -> int:
    return math.prod(numbers)


def sum_of_squares(n: int) -> int:
    return sum(i * i for i in range(n + 1))


def mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers)


def first_or_none(numbers: list[int]) -> int | None:
    return numbers[0] if numbers else None


def divide(a: float, b: float) -> float:
    return math.inf if b == 0 else a / b


def not_a_number(x: float) -> bool:
    return math.isnan(x)


def counts(words: list[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for word in words:
        found[word] = found.get(word, 0) + 1
    return found


def by_number(numbers: list[int]) -> dict[int, str]:
    return {n: "even" if n % 2 == 0 else "odd" for n in numbers}


def min_and_max(numbers: list[int]) -> tuple[int, int]:
    return min(numbers), max(numbers)


def root(n: int) -> int:
    if n < 0:
        raise ValueError("negative")
    return math.isqrt(n)


def compare_versions(a: str, b: str) -> int:
    one, other = [int(x) for x in a.split(".")], [int(x) for x in b.split(".")]
    return (one > other) - (one < other)


def title(text: str) -> str:
    return " ".join(word[:1].upper() + word[1:] for word in text.split(" "))


TRAPS = {
    trap.function.__name__: trap
    for trap in (
        Trap(floor_division, ("int", "int", "int"), [(7, 2), (-7, 2), (7, -2), (-8, 2), (0, 5)]),
        Trap(modulo, ("int", "int", "int"), [(7, 3), (-7, 3), (7, -3), (-6, 3)]),
        Trap(half_to_even, ("float", "int"), [(0.5,), (1.5,), (2.5,), (-0.5,), (-1.5,), (2.4,)]),
        Trap(sort_numbers, ("list[int]", "list[int]"), [([10, 9, 1],), ([-1, -10, 5, 100],), ([],)]),
        Trap(sort_by_length, ("list[str]", "list[str]"), [(["bb", "a", "cc", "dd", "b"],), (["", "é", "aa"],)]),
        Trap(reverse_letters, ("str", "str"), [("abc",), ("",), ("aé",), ("a😀b",)]),
        Trap(count_letters, ("str", "int"), [("abc",), ("é",), ("😀",)]),
        Trap(last_of, ("list[int]", "int", "list[int]"), [([1, 2, 3], 2), ([1, 2, 3], 3), ([1, 2, 3, 4], 6)]),
        Trap(product, ("list[int]", "int"), [([2, 3],), ([],), ([100000, 100000, 5],)]),
        Trap(sum_of_squares, ("int", "int"), [(3,), (0,), (3000,)]),
        Trap(mean, ("list[float]", "float"), [([1, 2],), ([1.5],), ([1, 2, 4],)]),
        Trap(first_or_none, ("list[int]", "optional[int]"), [([],), ([0, 1],), ([5],)]),
        Trap(divide, ("float", "float", "float"), [(1.0, 0.0), (1.0, 3.0), (-1.0, 4.0)]),
        Trap(not_a_number, ("float", "bool"), [(math.nan,), (math.inf,), (0.0,)]),
        Trap(counts, ("list[str]", "dict[str, int]"), [(["a", "b", "a"],), (["constructor", "__proto__"],), ([],)]),
        Trap(by_number, ("list[int]", "dict[int, str]"), [([1, 2, -3],), ([],)]),
        Trap(min_and_max, ("list[int]", "tuple[int, int]"), [([3, 10, 9],), ([-1],)]),
        Trap(root, ("int", "int"), [(0,), (15,), (16,), (-1,)]),
        Trap(compare_versions, ("str", "str", "int"), [("1.10", "1.9"), ("1.2", "1.2"), ("1", "1.1")]),
        Trap(title, ("str", "str"), [("ab cd",), ("",), ("a  b",)]),
    )
}
assert len(TRAPS) == 20
