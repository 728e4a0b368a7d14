import contextlib
import json
import math
import os
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.sandbox.inside import codec
from evaluation.sandbox.inside.plain import READERS, CodecError
from evaluation.sandbox.inside.shared import SharedObjects

any_text = st.text(st.characters(exclude_categories=()))
hashable = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=True)
    | any_text
    | st.binary()
    | st.complex_numbers()
    | st.decimals(allow_nan=False)
    | st.fractions()
    | st.dates()
    | st.times()
    | st.datetimes()
    | st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-3, minutes=30))]))
    | st.timedeltas(),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=4),
    max_leaves=8,
)
plain = st.recursive(
    hashable
    | st.decimals()
    | st.builds(bytearray, st.binary())
    | st.builds(range, st.integers(), st.integers(), st.integers(1, 9)),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.tuples(inner)
        | st.dictionaries(hashable, inner, max_size=4)
        | st.sets(hashable, max_size=4)
        | st.builds(deque, st.lists(inner, max_size=4), st.none() | st.integers(4, 9))
        | st.builds(Counter, st.lists(hashable, max_size=4))
        | st.builds(OrderedDict, st.dictionaries(hashable, inner, max_size=4))
        | st.builds(
            defaultdict, st.none() | st.sampled_from([int, list, set]), st.dictionaries(hashable, inner, max_size=4)
        )
        | st.dictionaries(hashable, inner, max_size=4).map(dict.keys)
        | st.dictionaries(hashable, inner, max_size=4).map(dict.values)
        | st.dictionaries(hashable, hashable, max_size=4).map(dict.items)
    ),
    max_leaves=20,
)


def same(a, b):
    """Equal with equal types all the way down; floats by their bits, so that NaN and -0.0 count."""
    if type(a) is not type(b):
        return False
    if type(a) is float:
        return struct.pack(">d", a) == struct.pack(">d", b)
    if type(a) is complex:
        return same(a.real, b.real) and same(a.imag, b.imag)
    if type(a) is Decimal:
        return a.as_tuple() == b.as_tuple()
    if type(a) is deque and a.maxlen != b.maxlen:
        return False
    if type(a) in (list, tuple, deque, type({}.keys()), type({}.values()), type({}.items())):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        factories = [getattr(x, "default_factory", None) for x in (a, b)]
        return factories[0] is factories[1] and same(list(a.items()), list(b.items()))
    if type(a) in (set, frozenset):
        rest = list(b)
        for item in a:
            match = next((i for i, other in enumerate(rest) if same(item, other)), None)
            if match is None:
                return False
            rest.pop(match)
        return not rest
    return a == b


def through(value):
    frame = codec.dump(codec.encode(value))
    return codec.decode(json.loads(frame[4:]))


@given(plain)
def test_every_plain_value_comes_back_exactly(value):
    assert same(through(value), value)


def test_subclasses_of_builtins_are_flattened_to_the_base_value():
    class Liar(int):
        def __eq__(self, other):
            return True

        __hash__ = int.__hash__

        def __int__(self):
            return 7

    class Word(str):
        __slots__ = ()

    value = through([Liar(3), Word("a"), {Word("k"): Liar(1)}])
    assert same(value, [3, "a", {"k": 1}])


@pytest.mark.parametrize("value", [object(), len, (x for x in ()), type, {1: lambda: 0}])
def test_what_is_not_plain_data_is_refused(value):
    with pytest.raises(CodecError):
        codec.encode(value)


def test_deep_and_huge_values_are_refused_and_take_no_numbers():
    deep = []
    for _ in range(codec.MAX_DEPTH + 1):
        deep = [deep]
    shared = SharedObjects()
    for value in (deep, [0] * (codec.MAX_NODES + 1), [None] * (codec.MAX_NODES + 1), [[], object()]):
        with pytest.raises(CodecError):
            codec.encode(value, shared)
    assert shared.count == 0
    with pytest.raises(CodecError):
        codec.dump(codec.encode("x" * (codec.MAX_FRAME + 1)))


def test_one_object_under_two_names_stays_one_even_inside_itself():
    row = [0]
    loop = {"rows": [row, row]}
    loop["self"] = loop
    copy = through(loop)
    assert copy["rows"][0] is copy["rows"][1]
    assert copy["self"] is copy


class Sides:
    """Checker and guest without the processes between them."""

    def __init__(self):
        self.checker, self.guest = (
            SharedObjects(make_proxy=lambda number: iter([number])),
            SharedObjects(owns_iterators=True),
        )

    def send(self, value, to_guest=True):
        ours, theirs = (self.checker, self.guest) if to_guest else (self.guest, self.checker)
        codec.decode_changes(codec.encode_changes(ours), theirs)
        there = codec.decode(codec.parse(codec.dump({"v": codec.encode(value, ours)})[4:])["v"], theirs)
        ours.mark()
        theirs.mark()
        return there


mutable = [[1], {1: 2}, {1, 2}, bytearray(b"ab"), deque([1], 5), Counter("aab"), OrderedDict(a=1), defaultdict(list)]


@pytest.mark.parametrize("value", mutable, ids=lambda value: type(value).__name__)
def test_a_change_on_one_side_reaches_the_object_of_the_other(value):
    sides = Sides()
    there = sides.send(value)
    assert same(there, value)
    there.clear()
    assert sides.send(there, to_guest=False) is value
    assert len(value) == 0
    change = {list: [7], dict: {3: [4]}, set: {5}, bytearray: b"cd", deque: [6]}[
        next(base for base in (list, dict, set, bytearray, deque) if isinstance(value, base))
    ]
    (value.update if isinstance(value, dict | set) else value.extend)(change)
    assert sides.send(value) is there
    assert same(there, value)


def test_what_nobody_but_the_table_holds_is_forgotten():
    sides = Sides()
    kept = [[1]]
    sides.send(kept)
    sides.send([[2], {3: []}])
    assert sides.checker.drop_unused() == [2, 3, 4, 5]
    assert set(sides.checker._items) == {0, 1}
    assert sides.checker.find_number(kept) == 0


def test_what_is_lent_is_kept_for_the_other_side():
    sides = Sides()
    sides.send([[1], iter([])], to_guest=False)
    assert sides.guest.drop_unused() == [0, 1]
    assert set(sides.guest._items) == {2}


def test_what_is_no_plain_data_in_an_argument_is_equal_to_nothing_and_can_be_handed_back():
    sides = Sides()
    ours = []
    there = sides.send(ours)
    strange = type("Any", (), {"__eq__": lambda *_: True})()
    there.append(strange)
    sides.send(None, to_guest=False)
    assert ours != [1]
    assert sides.send(ours[0]) is strange
    ours.append(object())
    with pytest.raises(CodecError):
        codec.encode_changes(sides.checker)


def test_an_iterator_stays_with_its_owner():
    sides = Sides()
    owned = iter([1, 2])
    borrowed = sides.send([owned], to_guest=False)
    assert next(borrowed[0]) == 1, "the number under which the guest knows it"
    assert sides.send(borrowed[0]) is owned
    with pytest.raises(CodecError):
        codec.encode(iter([]), sides.checker)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | any_text,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from([*READERS, *codec._EMPTY, "ref", "iterator"]) | any_text, inner, max_size=2)
    ),
    max_leaves=25,
)


def only_builtins(value, seen=()):
    if any(value is one for one in seen):
        return True
    inside = lambda parts: all(only_builtins(part, (*seen, value)) for part in parts)  # noqa: E731
    if type(value) in (list, tuple, set, frozenset, deque, *map(type, ({}.keys(), {}.values(), {}.items()))):
        return inside(value)
    if type(value) in (dict, Counter, OrderedDict, defaultdict):
        return inside([*value, *value.values()])
    if type(value) in (date, datetime, time, timedelta, Decimal, Fraction, memoryview):
        return True
    return value is None or type(value) in (bool, int, float, complex, str, bytes, bytearray, range)


@given(json_values)
def test_decoding_anything_gives_plain_data_or_a_codec_error(form):
    try:
        value = codec.decode(form)
    except CodecError:
        return
    assert only_builtins(value)


@given(st.binary(max_size=200))
def test_a_hostile_frame_is_an_object_or_a_codec_error(body):
    with contextlib.suppress(CodecError):
        assert type(codec.parse(body)) is dict


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 500_000,
        b'{"id": NaN}',
        b'{"id": 1e400}',
        b'{"id": ' + b"9" * 100_000 + b"}",
        b"[]",
        b'"text"',
        b'{"id": 1',
        b"\xff",
        b"",
    ],
    ids=["deep", "nan", "float", "long-integer", "list", "text", "cut", "not-ascii", "empty"],
)
def test_frames_outside_the_grammar_are_refused(body):
    with pytest.raises(CodecError):
        codec.parse(body)


@pytest.mark.parametrize(
    "form",
    [
        {"dict": [[[1], 2]]},
        {"dict": [[1, 2], [1, 3]]},
        {"set": [1, 1]},
        {"set": 5},
        {"range": [1, 2]},
        {"range": [0, 1, 0]},
        {"range": ["0", "1", "1"]},
        {"float": "nan"},
        {"int": "12"},
        {"int": 12},
        {"bytes": "xyz"},
        {"str": "ff"},
        {"complex": ["0", "0"]},
        {"module": "os"},
        {"ref": 0},
        {"ref": True},
        {"ref": "0"},
        {"iterator": None},
        {"Decimal": "__import__"},
        {"Decimal": "1" + "E" + "9" * 30},
        {"Fraction": [1, 0]},
        {"Fraction": [1, True]},
        {"date": [2020, 13, 1]},
        {"date": [2020, 1]},
        {"datetime": [2020, 1, 1, 0, 0, 0, 0, 0, [9, 0, 0]]},
        {"time": [0, 0, 0, 0, 2, None]},
        {"timedelta": [10**10, 0, 0]},
        {"deque": [-1, []]},
        {"deque": [True, []]},
        {"defaultdict": ["eval", []]},
        {"defaultdict": [[], []]},
        {"Counter": 5},
        {"list": None},
        {"dict_items": [1]},
        {"dict_keys": [1, 1]},
        {"memoryview": 5},
        {"int": "0x1", "float": "0" * 16},
        {},
    ],
    ids=str,
)
def test_forms_that_are_never_written_are_refused(form):
    with pytest.raises(CodecError):
        codec.decode(form)


def test_a_frame_that_announces_too_much_is_refused_unread():
    read_end, write_end = os.pipe()
    try:
        os.write(write_end, struct.pack(">I", codec.MAX_FRAME + 1))
        with pytest.raises(CodecError, match="announces"):
            codec.read(read_end)
    finally:
        os.close(read_end)
        os.close(write_end)


@pytest.mark.parametrize("sent", [b"", b"\0\0", b"\0\0\0\x09{"])
def test_the_end_of_the_other_side_is_no_message(sent):
    read_end, write_end = os.pipe()
    os.write(write_end, sent)
    os.close(write_end)
    try:
        assert codec.read(read_end) is None
    finally:
        os.close(read_end)


def test_nan_keeps_its_bits():
    assert math.isnan(through(float("nan")))
    assert math.copysign(1.0, through(-0.0)) == -1.0
