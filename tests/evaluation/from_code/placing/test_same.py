"""Outcomes are compared by what a caller can observe."""

from __future__ import annotations

import collections
import json
from decimal import Decimal

import pytest

from evaluation.from_code.placing.tree_equality import agrees, is_same_value
from evaluation.from_code.recording import values


class Shelf:
    """A class of a project: a public attribute, and what the implementation keeps for itself."""

    def __init__(self, books, **private):
        self.books = books
        vars(self).update({f"_{name}": value for name, value in private.items()})


class Sorted(dict):
    """A dict of a project."""


def tree(value):
    return json.loads(values.serialize(value))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (Shelf([1]), Shelf([1], cache={"hits": 3})),
        (Shelf([1], Shelf__hash=5), Shelf([1], Shelf__hash=6)),
        (collections.OrderedDict(a=1), {"a": 1}),
        ({"a": 1}, collections.defaultdict(list, a=1)),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
        ({1, 2}, frozenset((2, 1))),
        (0.3, 0.1 + 0.2),
        (2, 2.0),
        ([Decimal("-0"), Decimal("2.0")], [Decimal(0), Decimal(2)]),
    ],
)
def test_equal_for_a_caller(one, two):
    assert is_same_value(tree(one), tree(two))
    assert is_same_value(tree(two), tree(one))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (Shelf([1]), Shelf([2])),
        (Sorted(a=1), {"a": 1}),
        (collections.OrderedDict(a=1), {"a": 2}),
        (True, 1),
        ([0], [False]),
        (Decimal(2), Decimal("2.1")),
        (Decimal(2), 2),
        ([1], (1,)),
    ],
)
def test_different_for_a_caller(one, two):
    assert not is_same_value(tree(one), tree(two))
    assert not is_same_value(tree(two), tree(one))


def test_an_iterator_is_no_list():
    call, expected = tree(((), {})), {"returned": [1, 2], "iterator": True}
    assert agrees({"returned": [1, 2], "iterator": True}, expected, call)
    assert not agrees({"returned": [1, 2]}, expected, call)
    assert not agrees(expected, {"returned": [1, 2]}, call)


def test_an_argument_that_only_the_answer_changes_is_a_difference():
    call, expected = tree((([1, 2],), {})), {"returned": 3}
    assert agrees({"returned": 3}, expected, call)
    assert not agrees({"returned": 3, "after": tree((([],), {}))}, expected, call)
