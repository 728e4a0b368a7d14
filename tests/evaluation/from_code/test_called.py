"""What functions learn from those that they call: recorded results, exceptions that reach them, texts that matter."""

from __future__ import annotations

import ast

import pytest

from evaluation.from_code.called import (
    list_called_examples,
    list_callee_exceptions,
    list_texts_by_parameter,
    list_texts_compared_by_callees,
)
from evaluation.from_code.calls.record import Recording
from evaluation.from_code.calls.recorded import RecordedCall, compute_digest
from evaluation.from_code.recording import values
from evaluation.from_code.recording.values import OpaqueObject
from evaluation.from_code.source.context import build_prompt
from evaluation.from_code.source.find import find_functions

SHOP = """
from tables import Table, lookup


class Shop:
    def price(self, name):
        row = self.table.get(lookup(name), None)
        seen = name.split(",")
        return row, seen
"""
TABLES = """
class Table:
    def get(self, key, default):
        value = self.rows.get(key, default)
        return value, 1


def lookup(name):
    key = name.upper()
    return key, len(key)


class Other:
    def split(self, mark):
        parts = []
        return parts
"""


def call(*args, returned):
    text = values.serialize((args, {}))
    return RecordedCall(text, compute_digest(text), "shape", values.serialize(returned))


@pytest.fixture
def found(opened):
    project = opened(shop=SHOP, tables=TABLES)
    functions = {function.qualified: function for function in find_functions(project)}
    table = OpaqueObject({"object": ["tables:Table", None, [["rows", {"dict": []}]]]})
    calls = {
        functions["lookup"].key: [call("plum" * 90, returned=(1, 2)), call("pear", returned=("PEAR", 4))],
        functions["Table.get"].key: [call(table, ("PEAR", 4), None, returned=(None, 1))],
        functions["Other.split"].key: [call("a,b", ",", returned=["a", "b"])],
    }
    return project, functions["Shop.price"], Recording(calls)


def test_what_called_functions_return_is_shown_with_their_objects_by_class(found):
    _, function, recording = found
    assert list_called_examples(function, recording) == [
        "Table.get(<Table ...>, ('PEAR', 4), None) returns (None, 1)",
        "lookup('pear') returns ('PEAR', 4)",
    ]


def test_they_stand_before_the_functions_own_examples(found):
    project, function, _ = found
    prompt = build_prompt(project, function, examples=["price(1) returns 2"], called=["lookup(1) returns 3"])
    assert "    # What it calls, for example:\n    # lookup(1) returns 3\n    # For example:\n    # price(1)" in prompt


def test_texts_are_collected_by_the_names_of_parameters(found):
    project, function, recording = found
    functions = find_functions(project)
    by_name = list_texts_by_parameter(functions, recording.calls)
    assert by_name["name"] == ["pear"], "not the long one"
    assert by_name["mark"] == [","]
    assert "default" not in by_name
    assert function.key not in recording.calls


_TRIE = """
class Trie:
    def find(self, key):
        if key in self.x:
            return self.x[key]
        raise KeyError(key)
    def __getitem__(self, key):
        return self.find(key)
    def iterate(self, key):
        yield self.find(key)
        raise NotImplementedError
    def values(self, key):
        return list(self.iterate(key))
    def get(self, key):
        try:
            return self.find(key)
        except KeyError:
            return None
    def first(self, key):
        return self.get(key)
    def second(self, key):
        return self.get(key) or self.find(key)
    def third(self, key):
        try:
            return self.find(key)
        except Exception:
            return None
    def other(self, key):
        return self.things.find(key)
    def again(self, key):
        raise ValueError(self.again(key))
"""


def find(source, name):
    module = ast.parse(source)
    (node,) = (each for each in ast.walk(module) if getattr(each, "name", "") == name)
    return node, module


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("__getitem__", ["KeyError"]),
        ("values", ["KeyError"]),  # through another function, without what nobody is to see
        ("get", []),  # caught
        ("first", []),  # caught by what it calls
        ("second", ["KeyError"]),  # caught on one way of two
        ("third", []),  # caught with all others
        ("other", []),  # an attribute may be of any class
        ("again", []),  # calls itself
    ],
)
def test_exceptions_that_reach_a_function_are_those_of_what_it_calls_on_itself(name, expected):
    assert list_callee_exceptions(*find(_TRIE, name)) == expected


def test_texts_are_those_that_a_called_function_compares_its_parameters_with():
    source = """
class Path:
    def set(self, name, value):
        other = "b"
        if name in ("path", "segments") or other == "c":
            return "d"
        return name == "e"
class Url:
    def store(self, name):
        return Path.set(self, name, 1)
"""
    assert list_texts_compared_by_callees(*find(source, "store")) == ["e", "path", "segments"]
