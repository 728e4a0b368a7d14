"""What functions learn from those that they call: exceptions that reach them, texts that matter."""

from __future__ import annotations

import ast

import pytest

from evaluation.from_code.called import list_callee_exceptions, list_texts_compared_by_callees

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
