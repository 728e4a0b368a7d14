"""Bytes to events, events to chunks, and headers to seconds."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.remote.chunks import RemoteServerError, parse_chunk
from app.core.remote.connection import parse_retry_after, take_events
from app.core.remote.receiver import SampleReceiver
from decoding.request import Request

STREAM = (
    ": ping\r\n\r\ndata: é\n\nevent: x\ndata:two\ndata: lines\n\n\n\ndata: 🎉\r\n\r\nid: 1\n\ndata: unfinished".encode()
)
KEYS = st.sampled_from(
    [
        *("choices", "usage", "error", "index", "text", "finish_reason", "logprobs", "tokens", "token_logprobs"),
        *("prompt_tokens", "completion_tokens", "prompt_tokens_details", "cached_tokens", "message", "content"),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_events_do_not_depend_on_where_the_bytes_were_cut(cuts):
    places, rest = [0, *sorted(cuts), len(STREAM)], bytearray()
    blocks = [STREAM[start:end] for start, end in itertools.pairwise(places)]
    assert [data for block in blocks for data in take_events(rest, block)] == ["é", "two\nlines", "🎉"]
    assert rest == b"data: unfinished"


def receive(*chunks: dict) -> SampleReceiver:
    received = SampleReceiver(Request("x", n=1, max_new_tokens=100), 0, 0)
    for chunk in chunks:
        (choice,) = parse_chunk(json.dumps({"choices": [{"index": 0, **chunk}]})).choices
        received.take(choice, 0.1)
    return received


def test_a_character_in_two_chunks_is_one():
    assert receive({"text": "x = \ud83c"}, {"text": "\udf89"}).sample.text == "x = 🎉"
    assert receive({"text": "\udf89"}).sample.text == "\ufffd"


def test_log_probabilities_of_which_one_cannot_be_used_count_for_none_of_the_sample():
    good, bad = ({"text": "a", "logprobs": {"token_logprobs": [one]}} for one in (-0.5, "high"))
    assert receive(good, good).sample.logprobs == [-0.5, -0.5]
    assert receive(good, bad, good).sample.logprobs == []


def test_a_null_is_no_answer_where_another_field_has_one():
    chunk = parse_chunk(
        '{"choices": [{"index": 0, "delta": {"reasoning_content": null, "reasoning": "hm"}}],'
        ' "usage": {"completion_tokens": null}, "timings": {"predicted_n": 4}}'
    )
    assert (chunk.choices[0].thought, chunk.usage.completion_tokens) == ("hm", 4)


@given(document=st.dictionaries(KEYS, JSON, max_size=5))
def test_any_json_is_a_chunk_or_one_sentence(document):
    try:
        chunk = parse_chunk(json.dumps(document))
    except RemoteServerError:
        return
    for choice in chunk.choices:
        assert type(choice.index) is int
        assert type(choice.text) is str
        assert choice.tokens is None or all(type(logprob) is float for logprob in choice.tokens.logprobs)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("3", 3), ("0.5", 0.5), ("0", 0.1), (" 7 ", 7), *((other, 1) for other in ("-3", "nan", "1e9", "٣", "soon", ""))],
)
def test_retry_after_is_a_number_of_seconds_or_the_usual_pause(header, seconds):
    assert parse_retry_after(header) == seconds
