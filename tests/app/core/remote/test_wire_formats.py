"""Events to chunks, and headers to seconds."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.remote.chunks import RemoteServerError, parse_chunk
from app.core.remote.connection import parse_retry_after

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
