"""Values are written without running a line of the project's code, and read back as they were."""

from __future__ import annotations

from collections import OrderedDict

import pytest

from evaluation.from_code.recording import values

PLAIN = [
    None, True, 0, -(2**80), 1.5, float("inf"), "a\n\udcff\0", b"\xff", range(1, 9, 2), [1, [2]], (1,), (), {"a": [1]},
    {(1, 2): None}, {1, 2}, set(), frozenset({"x"}), {2: "b", 1: "a"},
]  # fmt: skip


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_values_come_back_equal_and_of_the_same_type(value):
    read = values.read(values.serialize(value))
    assert (type(read), read) == (type(value), value)


def test_the_order_of_a_dict_stays_and_that_of_a_set_does_not_count():
    assert list(values.read(values.serialize({2: "b", 1: "a"}))) == [2, 1]
    assert values.serialize({"b", "a", "c"}) == values.serialize({"c", "b", "a"})


def test_one_list_in_two_places_comes_back_as_one_list():
    shared: list[int] = []
    one, other = values.read(values.serialize([shared, shared]))
    assert one is other


def test_a_list_that_holds_itself_comes_back():
    loop: list[object] = []
    loop.append(loop)
    back = values.read(values.serialize(loop))
    assert back[0] is back


def test_plain_reading_keeps_objects_as_texts_that_are_written_back():
    text = values.serialize([1, OrderedDict(a=[2])])
    plain = values.read_plain(text)
    assert plain[0] == 1
    assert isinstance(plain[1], values.OpaqueObject)
    assert values.serialize(plain) == text
    assert not values.is_plain(text)
    assert values.is_plain(values.serialize([1, {2: (3.0, b"")}]))


@pytest.mark.parametrize("value", ["x" * 5000, list(range(1000)), 1 << 2000, {i: [] for i in range(500)}])
def test_large_values_are_refused(value):
    with pytest.raises(values.UnwritableError):
        values.serialize(value)


@pytest.mark.parametrize("text", ['{"float": []}', '{"class": 1}', '{"a": 1, "b": 2}', '{"dict": [1]}', "["])
def test_texts_that_nobody_wrote_are_refused(text):
    with pytest.raises(ValueError, match=r"."):
        values.read(text)


class Named:
    """An object with a name."""

    def __init__(self, name):
        self.name = name


def test_objects_of_a_set_that_occur_again_are_the_same_objects():
    first, second = Named("b"), Named("a")
    members, again = values.read(values.serialize([{first, second, "c", (1,)}, [second, first]]))
    assert [each.name for each in again] == ["a", "b"]
    assert all(each in members for each in again)
    assert len(members) == 4
