import contextlib
import json
import math
import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.sandbox.inside import codec

any_text = st.text(st.characters(exclude_categories=()))
hashable = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=True)
    | any_text
    | st.binary()
    | st.complex_numbers(),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=4),
    max_leaves=8,
)
plain = st.recursive(
    hashable | st.builds(bytearray, st.binary()) | st.builds(range, st.integers(), st.integers(), st.integers(1, 9)),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.tuples(inner)
        | st.dictionaries(hashable, inner, max_size=4)
        | st.sets(hashable, max_size=4)
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
    if type(a) in (list, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if type(a) is dict:
        return same(list(a.items()), list(b.items()))
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
    with pytest.raises(codec.CodecError):
        codec.encode(value)


def test_deep_self_referring_and_huge_values_are_refused():
    loop = []
    loop.append(loop)
    for value in (loop, [0] * (codec.MAX_NODES + 1)):
        with pytest.raises(codec.CodecError):
            codec.encode(value)
    with pytest.raises(codec.CodecError):
        codec.dump(codec.encode("x" * (codec.MAX_FRAME + 1)))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | any_text,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(list(codec._READERS)) | any_text, inner, max_size=2)
    ),
    max_leaves=25,
)


def only_builtins(value):
    if type(value) in (list, tuple, set, frozenset):
        return all(map(only_builtins, value))
    if type(value) is dict:
        return all(map(only_builtins, value)) and all(map(only_builtins, value.values()))
    return value is None or type(value) in (bool, int, float, complex, str, bytes, bytearray, range)


@given(json_values)
def test_decoding_anything_gives_plain_data_or_a_codec_error(form):
    try:
        value = codec.decode(form)
    except codec.CodecError:
        return
    assert only_builtins(value)


@given(st.binary(max_size=200))
def test_a_hostile_frame_is_an_object_or_a_codec_error(body):
    with contextlib.suppress(codec.CodecError):
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
    with pytest.raises(codec.CodecError):
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
        {"int": "0x1", "float": "0" * 16},
        {},
    ],
    ids=str,
)
def test_forms_that_are_never_written_are_refused(form):
    with pytest.raises(codec.CodecError):
        codec.decode(form)


def test_a_frame_that_announces_too_much_is_refused_unread():
    read_end, write_end = os.pipe()
    try:
        os.write(write_end, struct.pack(">I", codec.MAX_FRAME + 1))
        with pytest.raises(codec.CodecError, match="announces"):
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
