"""Calls near to the recorded ones are made of what was recorded, and of what the function asks for."""

from __future__ import annotations

import ast
import random

import pytest

from evaluation.from_code.calls.cases import Case
from evaluation.from_code.calls.nearby import CallSources, list_nearby
from evaluation.from_code.calls.observe import CallOutcome
from evaluation.from_code.calls.recorded import compute_digest
from evaluation.from_code.recording import values
from evaluation.from_code.recording.values import OpaqueObject


def case(*args, **kwargs):
    call = values.serialize((args, kwargs))
    return Case(call, compute_digest(call), CallOutcome())


def nearby(source, *cases, limit=200):
    return [values.read_plain(call) for call in list_nearby(cases, ast.parse(source).body[0], limit)]


def first_arguments(source, *cases):
    return [args[0] for args, _ in nearby(source, *cases)]


ANY = "def f(x): ..."
LENGTH = "def f(x):\n    return len(x) < 3"
CHECKED = "def f(x):\n    return isinstance(x, (list, tuple))"
NEAR = {
    "words of the same case": (
        ANY,
        ["active_record", "Big User", "old_item"],
        ["old_record"],
        ["Big_record", "_record"],
    ),
    "digits": (ANY, ["2.7", "2.8"], ["2.0", "2.1", "0.7", "1.7"], []),
    "compared numbers": ("def f(x):\n    return x > 37", [5, 9], [36, 37, 38, 4, 6, 0], [-1]),
    "compared lengths": (LENGTH, ["abcdef", "ghijkl"], ["ab", "abc", "abcd"], []),
    "compared lengths of lists": (LENGTH, [[1, 2, 3, 4, 5], [6]], [[1, 2, 3]], []),
    "checked types": (CHECKED, [[1, 2], [3, 4]], [(1, 2)], []),
    "types that nobody checks": (ANY, [[1, 2], [3, 4]], [], [(1, 2)]),
    "texts that are no unicode": (ANY, ["a.\udcff", "b.c"], ["b.\udcff"], []),
    "two digits where it sorts": ("def f(x): return sorted(range(x))", [3, 4], [10], []),
    "one digit where it does not": ("def f(x): return list(range(x))", [3, 4], [], [10]),
    "longer than a block": (ANY, ["abcd", "e"], ["abcd" * 33], []),
    "keys of a dict": ("def f(x): return isinstance(x, str)", [["a", "b"], ["c"]], [{"a": None, "b": None}], []),
    "no keys of a dict": (ANY, [["a", "b"], ["c"]], [], [{"a": None, "b": None}]),
    "other characters": (ANY, ["one", "two"], [" one", "one ", "o ne", "one\xe9", "\xa0two", "t%wo", "{one"], []),
    "bytes": (ANY, [b"ab", b"c"], [b"", b"ab\n", b" ab", b"ab\0", b"\xffab", b"abb"], []),
    "none and zero in a list": (ANY, [[3, 1], [5]], [[None, 1], [0, 1], [None]], []),
    "parts and marks": (ANY, ["a=1&b=2", "http://host/x"], ["b=1&b=2", "a=1&a=2", "http:/host/x", "http"], []),
    "none in a dict": (ANY, [{"a": 1}, {"b": 2}], [{"a": None}], []),
}


@pytest.mark.parametrize(("source", "given", "wanted", "others"), NEAR.values(), ids=NEAR)
def test_values_near_to_recorded_ones_are_tried(source, given, wanted, others):
    found = first_arguments(source, *map(case, given))
    assert [each for each in wanted if each not in found] == []
    assert [each for each in others if each in found] == []


def test_a_default_by_keyword_alone_takes_no_place_among_the_positional_arguments():
    found = nearby("def f(a, *rest, k=7): ...", case("a", "b"), case("c", "d"))
    assert found
    assert all(7 not in args for args, _ in found)


@pytest.mark.parametrize(("numbers", "is_likely"), [((5, -2), True), ((5, 2), False)])
def test_signs_change_and_callers_mean_it_where_a_recorded_number_is_negative(numbers, is_likely):
    found = list_nearby(list(map(case, numbers)), ast.parse("def f(x): ...").body[0], 200)
    assert found[values.serialize(((-5,), {}))].is_likely is is_likely


def test_characters_and_texts_of_the_source_are_tried_and_callers_seldom_mean_them():
    body = '"""No _ here."""\n if x == "*!":\n  raise ValueError("a ~ b")\n return x.strip("-.")'
    source = f"def f(x):\n {body}"
    found = list_nearby([case("one"), case("two")], ast.parse(source).body[0], 200)
    texts = {values.read_plain(call)[0][0]: near.is_likely for call, near in found.items()}
    assert {"*!", "o-ne", "-one", "one.", "one\t", "\ntwo", "ONE"} <= set(texts)
    assert not any(mark in text for text in texts for mark in "_~")
    assert not any(texts[text] for text in ("o-ne", "*!", "ONE"))


def test_marks_are_doubled_and_texts_with_marks_joined_and_callers_seldom_mean_it():
    node = ast.parse("def f(x):\n return x.endswith('/..') or x == 'word'").body[0]
    found = list_nearby([case("/a/b"), case("c")], node, 200)
    texts = {values.read_plain(call)[0][0]: near.is_likely for call, near in found.items()}
    assert {"//a/b", "/a//b", "/a/b/..", "/../a/b", "c/.."} <= {
        text for text, is_likely in texts.items() if not is_likely
    }
    assert "cword" not in texts


@pytest.mark.parametrize(
    ("source", "cases", "wanted"),
    [
        ("def f(x, strict=False): ...", [case(1), case(2)], ((1,), {"strict": True})),
        ("def f(x, *, strict=True): ...", [case(1), case(2)], ((2,), {"strict": False})),
        ("def f(x, strict=False): ...", [case(1, strict=True), case(2)], ((1,), {})),
        ("def f(x, y=3): ...", [case(1, 2)], ((1,), {})),
        ("def f(x, y): ...", [case(1, "a"), case(2, "b")], ((1, "b"), {})),
    ],
    ids=("turned", "turned by name", "left out by name", "left out", "of another call"),
)
def test_options_are_turned_and_left_out_and_arguments_combined(source, cases, wanted):
    assert wanted in nearby(source, *cases)


def test_options_that_no_call_gives_get_another_value_of_their_type():
    calls = nearby('def f(x, sep=",", limit=None, width=3, *, strict=False): ...', case(1), case(2))
    assert {item for _, kwargs in calls for item in kwargs.items()} == {("sep", "-"), ("width", 4), ("strict", True)}


def test_an_argument_is_left_to_its_default_before_others():
    assert ((1, None, 3), {}) in nearby("def f(x, y=None, z=0): ...", case(1, 2, 3), case(4, 5, 6))


def test_an_argument_without_a_default_is_not_left_out():
    assert ((1,), {}) not in nearby("def f(x, y): ...", case(1, 2), case(3, 4))


def thing(**attributes):
    return OpaqueObject({"object": ["m:Thing", None, [list(each) for each in attributes.items()]]})


def states(*things):
    found = first_arguments("def f(x): ...", *map(case, things))
    return [dict(each.tree["object"][2]) for each in found]


def test_attributes_that_vary_alone_take_the_values_of_other_objects():
    found = states(thing(years=1, months=2), thing(years=1, months=-7), thing(years=4, months=2))
    assert {"years": 4, "months": -7} in found
    assert {"years": 1, "months": 7} in found


def test_attributes_that_depend_on_each_other_stay_as_they_were():
    assert states(thing(text="a", length=1), thing(text="bcd", length=3)) == []


def test_the_order_of_the_recorded_calls_does_not_matter_and_none_of_them_is_repeated():
    cases = [case(f"item {number}", [number, 3]) for number in range(20)]
    mixed = random.Random(1).sample(cases, len(cases))
    node = ast.parse("def f(x, y): ...").body[0]
    found = list_nearby(cases, node, 50)
    assert list(found) == list(list_nearby(mixed, node, 50))
    assert len(found) == 50
    assert not {each.call for each in cases} & set(found)


def test_changes_that_callers_seldom_mean_are_marked():
    found = list_nearby([case("a.b"), case("c-d")], ast.parse("def f(x): ...").body[0], 200)
    likely = {values.read_plain(call)[0][0]: near.is_likely for call, near in found.items()}
    assert all(is_likely for text, is_likely in likely.items() if text[1:-1] == "." and text[0] == "a")
    assert (likely["a-b"], likely["a"]) == (False, False)


def test_tuples_of_one_length_keep_it():
    lengths = {len(each) for each in first_arguments("def f(x): ...", case((1, 2)), case((3, 4)))}
    assert lengths == {2}


def test_an_argument_takes_the_value_of_another_one_of_its_type():
    assert (("a", "a"), {}) in nearby("def f(x, y): ...", case("a", "b"), case("c", "d"))


def test_an_exception_holds_the_changed_arguments_when_its_constructor_begins():
    def made(*content):
        return OpaqueObject({"object": ["m:OddError", list(content), []]})

    source = "def __init__(self, text, number): ..."
    found = nearby(source, case(made("a b", 1), "a b", 1), case(made("c d", 2), "c d", 2))
    assert found
    assert all(receiver.tree["object"][1] == list(given) for (receiver, *given), _ in found)


@pytest.mark.parametrize(
    ("content", "is_changed"), [(None, True), ([None, []], False), (["of another call", 1], False)]
)
def test_a_constructor_of_what_holds_something_else_than_its_arguments_keeps_them(content, is_changed):
    made = OpaqueObject({"object": ["m:Thing", content, []]})
    found = nearby("def __init__(self, text, number): ...", case(made, "a b", 1), case(made, "c d", 2))
    assert bool(found) is is_changed
    assert all(receiver.tree["object"][1] == content for (receiver, *_), _ in found)


def test_objects_that_other_methods_were_called_on_take_the_receivers_place():
    other, stranger = thing(items=1, dead=1), OpaqueObject({"object": ["m:Stranger", None, []]})
    node = ast.parse("def f(self, x): ...").body[0]
    found = list_nearby([case(thing(items=1, dead=0), 5)], node, 50, CallSources([other, stranger]))
    calls = [values.read_plain(call)[0] for call in found]
    assert [args[1] for args in calls if args[0].tree == other.tree] == [5]
    assert not any(args[0].tree == stranger.tree for args in calls)


def test_texts_that_called_functions_compare_with_are_tried():
    node = ast.parse("def f(name): return get(name)").body[0]
    found = list_nearby([case("query"), case("path")], node, 50, CallSources(texts=["args", "x" * 41]))
    texts = [values.read_plain(call)[0][0] for call in found]
    assert "args" in texts
    assert not any("xx" in text for text in texts)


def test_slices_of_other_kinds_are_tried():
    cuts = [values.read_plain(values.serialize(cut)) for cut in (slice(1, None), slice(3))]
    found = [each.tree["object"][1] for each in first_arguments("def f(x): ...", *map(case, cuts))]
    assert {(1, 0, None), (1, None, -1), (None, 3, 2), (-2, 3, None)} <= set(map(tuple, found))


def test_items_that_cannot_stand_in_a_set_stay_in_their_list():
    source = "def f(x): return isinstance(x, (list, set))"
    found = first_arguments(source, case([([1], 2)]), case([([3], 4)]))
    assert len(found) > 1
    assert not any(isinstance(each, set) for each in found)


def test_an_item_of_a_class_derived_from_dict_is_tried_as_none():
    kinds = [OpaqueObject({"object": ["m:Table", [None, [{"tuple": [key, 1]}]], []]}) for key in "ab"]
    found = [each.tree["object"][1] for each in first_arguments("def f(self): ...", *map(case, kinds))]
    assert [None, [{"tuple": ["a", None]}]] in found


def test_an_attribute_that_changes_with_the_items_keeps_its_value():
    kinds = [OpaqueObject({"object": ["m:Table", [None, [{"tuple": [key, 1]}]], [["keys", [key]]]]}) for key in "ab"]
    found = [each.tree["object"] for each in first_arguments("def f(self): ...", *map(case, kinds))]
    assert all(content[1][0]["tuple"][0] == keys[0][1][0] for _, content, keys in found)


@pytest.mark.parametrize(("numbers", "least"), [((3, -1), -8), ((3, 1), 0)])
def test_small_numbers_are_tried_below_zero_only_where_a_recorded_one_is(numbers, least):
    found = list_nearby(list(map(case, numbers)), ast.parse("def f(x): ...").body[0], 400)
    tried = {values.read_plain(call)[0][0] for call in found}
    assert {each for each in tried if abs(each) <= 8 and each not in numbers} >= {*range(least, 9)} - {*numbers}
    assert (min(tried) < -3) is (least < 0)


def test_a_number_goes_to_both_ends_of_the_longest_containers_in_the_call_and_past_them():
    cases = [case([1] * 12, 5), case([1] * 30, -2)]
    found = {args[1] for args, _ in nearby("def f(items, place): ...", *cases, limit=400)}
    assert {11, 12, -12, -13, 29, 30, -30, -31} <= found


def test_texts_of_other_functions_take_the_place_of_arguments_with_the_same_name():
    node = ast.parse("def f(url, text): ...").body[0]
    sources = CallSources(texts_by_parameter={"url": ["http://d#top", b"http://d"], "name": ["x"]})
    found = list_nearby([case("http://a", "b"), case("http://c", text="d")], node, 400, sources)
    elsewhere = [values.read_plain(call)[0][0] for call, near in found.items() if near.kind == "elsewhere"]
    assert set(elsewhere) == {"http://d#top"}
    assert all(near.is_likely for near in found.values() if near.kind == "elsewhere")


def test_none_is_put_into_an_object_within_the_receiver():
    inner = {"object": ["m:Table", [None, [{"tuple": ["a", 1]}]], []]}
    view = OpaqueObject({"object": ["m:View", None, [["size", 3], ["_table", inner]]]})
    found = list_nearby([case(view, 0), case(view, 1)], ast.parse("def f(self, place): ...").body[0], 400)
    trees = [values.read_plain(call)[0][0].tree for call, near in found.items() if near.kind == "none item"]
    assert trees
    assert all(tree["object"][2][1][1]["object"][1] == [None, [{"tuple": ["a", None]}]] for tree in trees)
