"""Calls that contradict the signature judge nothing where others are enough; defaults may name a number."""

from __future__ import annotations

import ast
from types import SimpleNamespace

import pytest

from evaluation.from_code.calls.cases import Case
from evaluation.from_code.calls.observe import CallOutcome
from evaluation.from_code.calls.signatures import keep_typed_cases, list_allowed_types, resolve_defaults
from evaluation.from_code.recording import values


def function(signature):
    return SimpleNamespace(node=ast.parse(f"def f({signature}): ...").body[0])


def calls(*arguments, **named):
    return [Case(values.serialize((args, named)), str(args), CallOutcome("null")) for args in arguments]


def kept(signature, given, least=2):
    return [values.read_plain(call.call)[0] for call in keep_typed_cases(function(signature), given, least)]


def test_texts_for_a_number_are_left_out():
    assert kept("number: int", calls((1,), ("2",), (3,), ("four",))) == [(1,), (3,)]


def test_where_too_few_are_left_all_of_them_count():
    assert kept("number: int", calls((1,), ("2",), ("3",))) == [(1,), ("2",), ("3",)]


def test_arguments_by_name_and_those_without_a_hint_count_too():
    given = [*calls((1, "x"), a="text"), *calls((1, 2), a=3), *calls((1, None))]
    assert kept("one, two, *, a: int = 0", given, 1) == [(1, 2), (1, None)]


@pytest.mark.parametrize(
    ("hint", "value", "fits"),
    [
        ("float", 1, True),
        ("int", 1.5, False),
        ("int", True, True),
        ("str | None", None, True),
        ("Optional[str]", 3, False),
        ("typing.Union[int, str]", "x", True),
        ("'list[int]'", [1], True),
        ("list[int]", (1,), False),
        ("Iterable[int]", 3, True),
        ("SomeClass", 3, True),
        ("'not python('", 3, True),
    ],
)
def test_what_a_hint_allows(hint, value, fits):
    assert isinstance(value, list_allowed_types(ast.parse(hint, mode="eval").body)) == fits


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
