"""Faults of readers who take a value for something near to it."""

from __future__ import annotations

import ast

import pytest

from evaluation.from_code.misreadings import list_misreadings

SOURCE = '''
def f(text, items, n=0):
    """Say something."""
    def inner():
        return " kept "
    if not items:
        return text
    return [*items, n, inner()]
'''


def run_all(source: str, types: dict[str, str], *args: object) -> list[object]:
    """What each misreading returns for a call, or the name of what it raises."""
    found: list[object] = []
    for _, _, text in list_misreadings(ast.parse(source).body[0], types):
        names: dict[str, object] = {}
        exec(text, names)
        try:
            found.append(names["f"](*args))  # type: ignore[operator]
        except Exception as error:
            found.append(type(error).__name__)
    return found


@pytest.mark.parametrize(
    ("types", "args", "wanted"),
    [
        ({"text": "str"}, (" A  B ", []), ["A  B", " a  b ", "A B", " A  B "]),
        ({"text": "str"}, ("", []), ["", "", "", None]),
        ({"text": "bytes"}, (b" a\0", []), [b"a\0", b" a", b" a\0"]),
        ({"items": "list"}, ("", [3, 0, 3]), [[3, 3, 0, " kept "], [3, 0, 0, " kept "], [0, 3, 3, 0, " kept "]]),
        ({"n": "int"}, ("", [1], -2), [[1, 2, " kept "], [1, -2, " kept "]]),
        ({"items": "OpaqueObject", "n": "bool"}, ("", [1]), []),
    ],
)
def test_an_argument_is_taken_for_something_near(types, args, wanted):
    assert run_all(SOURCE, types, *args)[: len(wanted)] == wanted


def test_a_result_is_changed_and_what_functions_within_return_is_not():
    assert run_all(SOURCE, {"return": "list"}, "", [1, 1]) == [[1, 1, " kept "], [1, 0, " kept "], [1, 1, 0, " kept "]]
    assert run_all(SOURCE, {"return": "str"}, " A ", []) == ["A", " a ", " A "]
    assert run_all(SOURCE, {"return": "str"}, "", [])[-1] is None


def test_without_types_nothing_is_misread():
    assert run_all(SOURCE, {}, "", []) == []
