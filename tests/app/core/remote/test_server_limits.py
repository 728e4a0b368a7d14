"""Servers that send too much, or nothing: a task takes its budget and a bounded number of bytes, whatever they do."""

from __future__ import annotations

import time
from typing import Any

import pytest

from app.core.remote.chunks import RemoteServerError
from app.core.remote.engine import RemoteEngine
from app.core.remote.target import RemoteTarget
from decoding.models.errors import ModelError
from decoding.request import Request
from tests.app.stub_server import CHAT, COMPLETIONS, LONG_S, Reply, choice, event, serve_stub, tokens


def test_a_server_that_ignores_max_tokens_is_cut_off_at_the_token():
    def answer(reply: Reply, _: dict) -> None:
        reply.start().write_forever(event(choice("ab", logprobs=tokens("a", "b"))))

    with serve_stub(answer) as stub:
        asked = Request("p", max_new_tokens=5, budget_s=LONG_S)
        (sample,) = RemoteEngine(RemoteTarget("m", stub.url)).generate(asked).samples
        assert stub.hung_up.wait(LONG_S)
    assert (sample.text, sample.finish_reason, sample.n_tokens) == ("ababa", "length", 5)


@pytest.mark.parametrize(("max_tokens", "n_characters"), [(5, 5 * 128), (8192, 512 * 1024)])
def test_without_log_probabilities_a_sample_has_a_generous_number_of_characters(max_tokens, n_characters):
    def answer(reply: Reply, body: dict) -> None:
        reply.start().write_forever(event(choice("x" * 10_000), choice("x" * 9_999, index=1)))

    with serve_stub(answer) as stub:
        asked = Request("p", n=2, max_new_tokens=max_tokens, budget_s=LONG_S)
        samples = RemoteEngine(RemoteTarget("m", stub.url)).generate(asked).samples
        assert stub.hung_up.wait(LONG_S)
    assert [(len(s.text), s.finish_reason) for s in samples] == [(n_characters, "length")] * 2


def test_a_server_that_says_nothing_more_after_the_last_choice_is_left():
    def answer(reply: Reply, _: dict) -> None:
        reply.start().write(event(choice("a", "stop")))
        reply.wait_for_hang_up()

    with serve_stub(answer) as stub:
        done = RemoteEngine(RemoteTarget("m", stub.url)).generate(Request("p", budget_s=LONG_S))
        assert stub.hung_up.wait(LONG_S)
    assert done.samples[0].finish_reason == "stop"
    assert done.wall_s == done.samples[0].finished_s  # what came after the last sample is nobody's time


def test_a_server_that_does_not_even_send_headers_is_hung_up_at_the_deadline():
    with serve_stub(lambda reply, _: reply.wait_for_hang_up()) as stub:
        done = RemoteEngine(RemoteTarget("m", stub.url)).generate(Request("p", n=2, budget_s=0.3))
        assert stub.hung_up.wait(LONG_S)
    assert [(s.text, s.finish_reason) for s in done.samples] == [("", "deadline")] * 2
    assert done.waited_s == 0


def ask_busy_server(retry_after: str, budget_s: float, **options: Any) -> tuple[Any, int, float]:
    def answer(reply: Reply, body: dict) -> None:
        reply.start(429, {"Retry-After": retry_after, "Content-Length": "0"})

    with serve_stub(answer) as stub:
        started = time.monotonic()
        done = RemoteEngine(RemoteTarget("m", stub.url)).generate(Request("p", budget_s=budget_s, **options))
        return done, len(stub.bodies), time.monotonic() - started


@pytest.mark.parametrize("retry_after", ["20", "999999"])
def test_a_busy_server_that_asks_to_wait_beyond_the_deadline_costs_the_budget_and_no_more(retry_after):
    done, n_requests, took_s = ask_busy_server(retry_after, 0.4, n=2)
    assert [(s.text, s.finish_reason) for s in done.samples] == [("", "deadline")] * 2
    assert n_requests == 1
    assert took_s < 15  # a busy machine's; the server asks for 20
    assert 0.3 < done.waited_s <= max(s.finished_s for s in done.samples)


def test_a_busy_server_is_asked_again_only_while_there_is_time():
    done, n_requests, _ = ask_busy_server("0.2", 0.5)
    assert n_requests <= 3
    assert done.samples[0].finish_reason == "deadline"


def test_what_a_completion_waited_before_is_part_of_the_budget_for_a_busy_server_too():
    done, _, took_s = ask_busy_server("20", 30.0, waited_s=29.7)
    assert took_s < 15
    assert done.waited_s > 29.8


def test_without_a_budget_a_busy_server_is_not_waited_for_without_end():
    with serve_stub(lambda reply, _: reply.start(503, {"Retry-After": "121", "Content-Length": "0"})) as stub:
        with pytest.raises(RemoteServerError, match="is too busy: it answers 503, and may be asked again in 121 s"):
            RemoteEngine(RemoteTarget("m", stub.url)).generate(Request("p"))
        with pytest.raises(ModelError, match="is too busy"):
            RemoteEngine.load(RemoteTarget("m", stub.url))


def test_a_server_that_is_busy_at_the_chat_probe_is_not_taken_for_one_without_chat():
    def answer(reply: Reply, body: dict) -> None:
        if "messages" in body:
            reply.start(503, {"Retry-After": "121", "Content-Length": "0"})
        else:
            reply.start().write(event(choice("x", "length", 0), choice("x", "length", 1)))

    with serve_stub(answer, (COMPLETIONS, CHAT)) as stub, pytest.raises(ModelError, match="is too busy"):
        RemoteEngine.load(RemoteTarget("m", stub.url))


def test_cancelling_ends_the_wait_for_a_busy_server():
    with serve_stub(lambda reply, _: reply.start(429, {"Retry-After": "50", "Content-Length": "0"})) as stub:
        engine = RemoteEngine(RemoteTarget("m", stub.url))
        done = engine.generate(Request("p", budget_s=LONG_S), should_cancel=lambda: bool(stub.bodies))
    assert done.samples[0].finish_reason == "cancelled"
