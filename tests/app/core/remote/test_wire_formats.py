"""Bytes to events, events to chunks, and headers to seconds."""

from __future__ import annotations

import datetime as dt
import email.utils
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.remote.chunks import EventReader, RemoteServerError, parse_chunk
from app.core.remote.connection import parse_retry_after

STREAM = (
    ": ping\r\n\r\ndata: é\n\nevent: x\ndata:two\ndata: lines\n\n\n\ndata: 🎉\r\n\r\nid: 1\n\ndata: unfinished".encode()
)
KEYS = st.sampled_from(
    [
        *("choices", "usage", "error", "index", "text", "finish_reason", "logprobs", "tokens", "token_logprobs"),
        *("prompt_tokens", "completion_tokens", "prompt_tokens_details", "cached_tokens", "message"),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_events_do_not_depend_on_where_the_bytes_were_cut(cuts):
    places = [0, *sorted(cuts), len(STREAM)]
    reader = EventReader(1000)
    blocks = [STREAM[start:end] for start, end in itertools.pairwise(places)]
    assert [data for block in blocks for data in reader.feed(block)] == ["é", "two\nlines", "🎉"]


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
    [
        *((None, 1), ("3", 3), ("0.5", 0.5), ("0", 0.1), (" 7 ", 7)),
        *(("-3", 1), ("nan", 1), ("inf", 1), ("1e9", 1), ("٣", 1), ("soon", 1), ("", 1)),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.1),
        ("Wed, 21 Oct 99999 07:28:00 GMT", 1),
    ],
)
def test_retry_after_is_a_number_of_seconds_or_the_usual_pause(header, seconds):
    assert parse_retry_after(header) == seconds


def test_retry_after_may_be_a_date():
    in_an_hour = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    assert 3000 < parse_retry_after(email.utils.format_datetime(in_an_hour, usegmt=True)) <= 3600
