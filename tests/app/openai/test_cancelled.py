"""A completion that an operator cancels is not sent again by OpenAI's client, which retries after many errors."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

from app.runs import transitions
from tests.app.openai.conftest import newest
from tests.app.openai_service import MODEL
from tests.fakes import FakeEngine

ASKED = {
    "text": lambda client, **more: client.completions.create(model=MODEL, prompt="def f():\n", **more),
    "chat": lambda client, **more: client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "Write f."}], **more
    ),
}


@pytest.fixture
def retrying(client) -> openai.OpenAI:
    """The client as it is by default."""
    return client.with_options(max_retries=openai.DEFAULT_MAX_RETRIES, timeout=20)


def cancelled(served, engine: FakeEngine, ask) -> openai.APIError:
    """What a client gets of a completion that is cancelled while it is decoded."""
    engine.hold = threading.Event()
    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(ask)
        assert engine.started.wait(60)
        transitions.cancel(served[0], newest(served[0]).id)
        error = answer.exception(60)
    assert len(engine.requests) == 1, "one call, one run"
    assert isinstance(error, openai.APIError)
    assert error.code == "cancelled"
    return error


@pytest.mark.parametrize("name", ASKED)
def test_the_client_is_told_with_a_status_after_which_it_does_not_try_again(served, retrying, engine, name):
    error = cancelled(served, engine, lambda: ASKED[name](retrying))
    assert isinstance(error, openai.APIStatusError)
    assert error.status_code == 410
    assert "cancelled" in error.message


@pytest.mark.parametrize("name", ASKED)
def test_a_stream_ends_with_the_error(served, retrying, engine, name):
    cancelled(served, engine, lambda: list(ASKED[name](retrying, stream=True)))
