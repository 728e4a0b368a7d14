"""The same problem twice is found, whatever its names; different ones are kept."""

from __future__ import annotations

import ast

from evaluation.from_code.source.duplicates import find_duplicates

LONG = "\n".join(f"    total += values[{i}] * weights[{i}] - {i}" for i in range(12))


def found(*sources):
    return find_duplicates([ast.parse(source).body[0] for source in sources])


def test_other_names_hints_and_docstrings_make_no_other_problem():
    first = "def f(a, b):\n    'One.'\n    c = a + b\n    return c * 2\n"
    second = "def g(x: int, y: int) -> int:\n    'Two.'\n    z = x + y\n    return z * 2\n"
    assert found(first, second) == {1: (0, True)}


def test_nearly_the_same_body_is_found():
    body = f"(values, weights):\n    total = 0\n{LONG}\n    return total"
    assert found(f"def f{body}\n", f"def g{body} + 1\n") == {1: (0, False)}


def test_other_constants_attributes_and_operators_are_other_problems():
    sources = [f"def f(a, b):\n    c = {text}\n    return c * 2\n" for text in ("a + b", "a - b", "a.x + b", "a + 1")]
    assert found(*sources) == {}
