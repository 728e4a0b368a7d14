"""Twenty small tasks, each with a trap: what looks right in other languages and is not what Python does.

The cases are what the function in Python returns.
"""

import math

from evaluation.datasets import Task
from evaluation.languages.cases import Case, Parameter, Signature
from evaluation.languages.types import parse_type
from evaluation.languages.values import to_json


def _median_index(values):
    return sorted(range(len(values)), key=lambda i: values[i])


def _unique(words):
    return list(dict.fromkeys(words))


def _count(words):
    return {word: words.count(word) for word in words}


def _slice(text, start, end):
    return text[start:end]


def _longest(words):
    return max(words, key=len, default=None)


def _largest(values):
    return max((value for value in values if not math.isnan(value)), default=-math.inf)


def _transposed(rows):
    return [list(row) for row in zip(*rows, strict=False)]


def _index(values, value):
    return values.index(value) if value in values else None


def _drops(values):
    return sum(values[i] > values[i + 1] for i in range(len(values) - 1))


TRAPS = {
    "floor_divided": (lambda a, b: a // b, ("int", "int"), "int", [(7, 2), (-7, 2), (7, -2), (-8, 2), (0, -5)]),
    "remainder": (lambda a, b: a % b, ("int", "int"), "int", [(7, 3), (-7, 3), (7, -3), (-6, 3)]),
    "total": (sum, ("list[int]",), "int", [([2**31, 2**31],), ([],), ([-(2**62), 2**62, 5],)]),
    "multiplied": (lambda a, b, m: a * b % m, ("int", "int", "int"), "int", [(10**18, 10**18, 10**9 + 7), (3, 4, 5)]),
    "rounded": (round, ("float",), "int", [(0.5,), (1.5,), (2.5,), (-0.5,), (-1.5,), (2.4,), (1e15 + 0.5,)]),
    "ratio": (lambda a, b: a / b, ("int", "int"), "float", [(7, 2), (1, 3), (-1, 4), (0, -3)]),
    "order": (_median_index, ("list[int]",), "list[int]", [([3, 1, 3, 1, 2] * 20,), ([],)]),
    "by_length": (lambda w: sorted(w, key=len), ("list[str]",), "list[str]", [(["bb", "a", "aa", "b"] * 9,), ([],)]),
    "length": (len, ("str",), "int", [("",), ("abc",), ("äöü€\U0001f600",), ("a\0b",)]),
    "backwards": (lambda s: s[::-1], ("str",), "str", [("abc",), ("aé€\U0001f600\n",), ("",)]),
    "cut": (_slice, ("str", "int", "int"), "str", [("hello", 1, 3), ("hi", 1, 9), ("hi", 5, 7), ("hello", -3, -1)]),
    "unique": (_unique, ("list[str]",), "list[str]", [(["b", "a", "b", "c", "a"],), (["z", "y"],), ([],)]),
    "counted": (_count, ("list[str]",), "dict[str, int]", [(["x", "y", "x"],), ([],), (["", '"\\\n'],)]),
    "drops": (_drops, ("list[int]",), "int", [([],), ([1],), ([3, 2, 1],), ([1, 2, 2],)]),
    "index": (_index, ("list[int]", "int"), "optional[int]", [([5, 6], 6), ([5, 6], 7), ([], 0)]),
    "parts": (divmod, ("int", "int"), "tuple[int, int]", [(-7, 2), (7, 2), (-1, 10)]),
    "longest": (_longest, ("list[str]",), "optional[str]", [(["a", "bb", "cc"],), ([],), ([""],)]),
    "largest": (_largest, ("list[float]",), "float", [([],), ([math.nan, 1.5, math.nan],), ([-0.5, -math.inf],)]),
    "transposed": (_transposed, ("list[list[int]]",), "list[list[int]]", [([[1, 2], [3]],), ([],), ([[1, 2], [3]],)]),
    "last_digit": (lambda n: abs(n) % 10, ("int",), "int", [(123,), (-128,), (0,), (-(2**62),)]),
}  # fmt: skip


def task(language, name):
    """The task in a language."""
    function, types, returns, arguments = TRAPS[name]
    kinds, result = [parse_type(kind) for kind in types], parse_type(returns)
    cases = tuple(Case(tuple(map(to_json, args, kinds)), to_json(function(*args), result)) for args in arguments)
    signature = Signature(name, tuple(Parameter(f"x{i}", kind) for i, kind in enumerate(kinds)), result)
    return Task(f"traps/{name}", "", name, "", "", language=language, signature=signature, cases=cases)
