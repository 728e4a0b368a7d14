"""A default that names a number of its module is one for the calls near to it."""

from __future__ import annotations

import ast

import pytest

from evaluation.from_code.calls.named_defaults import resolve_defaults


@pytest.mark.parametrize(
    ("assigned", "wanted"),
    [
        ("2 ** 16", "limit=65536"),
        ("64 * 1024 - 1", "limit=LIMIT"),  # a large number is no operand
        ("3 * 4 - 1", "limit=11"),
        ("True", "limit=LIMIT"),
        ("2 ** 2 ** 13", "limit=LIMIT"),
        ("2 ** -1", "limit=LIMIT"),
        ("compute()", "limit=LIMIT"),
    ],
)
def test_numbers_take_the_place_of_their_names_in_calls_only(assigned: str, wanted: str) -> None:
    module = ast.parse(f"LIMIT = {assigned}\ndef f(a, limit=LIMIT, *, other=LIMIT, last): ...\n")
    (function,) = [each for each in module.body if isinstance(each, ast.FunctionDef)]

    resolved = resolve_defaults(function, module)

    assert wanted in ast.unparse(resolved.args)
    assert ("other=LIMIT" in ast.unparse(resolved.args)) == (wanted == "limit=LIMIT")
    assert "limit=LIMIT" in ast.unparse(function.args)
