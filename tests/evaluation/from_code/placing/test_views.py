"""What a caller sees of an object, whatever its private attributes are."""

from __future__ import annotations

from functools import cached_property

from evaluation.from_code.placing.views import read_views


class Box:
    """Private content behind a public surface."""

    def __init__(self, items):
        self._items = items

    def __iter__(self):
        return iter(self._items)

    def __len__(self):
        return len(self._items)

    def __repr__(self):
        return f"Box({self._items})"

    @cached_property
    def first(self):
        return self._items[0]

    @property
    def _hidden(self):
        raise AssertionError("is private")


def is_own(kind):
    return kind is Box


def test_properties_length_items_and_texts_are_seen_in_order():
    assert read_views(Box([3, 4]), is_own) == [
        ["__iter__", [3, 4]],
        ["__len__", 2],
        ["__repr__", "Box([3, 4])"],
        ["first", 3],
    ]


def test_what_raises_is_seen_as_its_exception_and_what_is_no_data_is_not_seen():
    found = dict(read_views(Box([]), is_own))
    assert found["first"] == {"raised": "IndexError"}
    assert "__iter__" not in dict(read_views(Box([open]), lambda kind: False))
    assert "first" not in dict(read_views(Box([iter(())]), is_own))


def test_an_object_of_another_class_has_no_views():
    assert read_views([1, 2], is_own) == []


class Leaf:
    """Knows the box that it is in."""

    def __init__(self, parent):
        self._parent = parent

    @property
    def parent(self):
        return self._parent


class Reader:
    """A position that only later calls show."""

    def __init__(self, position, mark):
        self._position, self._mark = position, mark
        self.leaves = [Leaf(position)]

    def __len__(self):
        return self._position

    def reset(self):
        self._position = self._mark

    def restart(self):
        self.reset()

    def move(self, steps):
        self._position += steps

    def read_all(self):
        yield self._position


def test_methods_without_arguments_are_called_on_copies_to_see_what_they_do_next():
    reader = Reader(3, 1)
    found = dict(read_views(reader, lambda kind: kind in (Reader, Leaf)))
    assert found == {"__len__": 3, "reset()": [None, ["__len__", 1]], "leaves[0].parent": 3}
    assert len(reader) == 3


def test_the_judged_method_is_called_whatever_its_code_reads():
    found = dict(read_views(Reader(3, 1), lambda kind: kind is Reader, judged="restart"))
    assert found["restart()"] == [None, ["__len__", 1]]


def test_the_properties_of_objects_in_a_result_are_seen():
    assert read_views([Leaf(4)], lambda kind: kind is Leaf) == [["[0].parent", 4]]
    assert read_views([Leaf(4)], is_own) == []
