"""Servers that lack something: each gap is made up for on this side, and the run records how."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.core.remote.engine import RemoteEngine, derive_seed
from app.core.remote.target import RemoteTarget
from decoding.request import Request, SamplingParams
from tests.app.stub_server import DONE, LONG_S, Reply, choice, event, serve_stub, tokens

BODY = "    return a + b\n"
CODE = BODY + "\ndef next():\n    pass\n"
STOPS = tuple(f"\n{letter}" for letter in "abcdefgh")


def refusing(is_refused: Callable[[dict], bool], answer=None, status: int = 400) -> Callable[[Reply, dict], None]:
    """A server that refuses some requests."""

    def answer_or_refuse(reply: Reply, body: dict) -> None:
        if is_refused(body):
            reply.refuse("this field is not supported", status)
        else:
            (answer or full_server)(reply, body)

    return answer_or_refuse


def full_server(reply: Reply, body: dict) -> None:
    """A server that takes n and stop strings: CODE, up to the first of them."""
    stops = [at for stop in body.get("stop", ()) if (at := CODE.find(stop)) >= 0]
    text = CODE[: min(stops, default=None)]
    for index in range(body.get("n", 1)):
        reply_choice = choice(text, "stop", index, tokens(text) if "logprobs" in body else None)
        if index == 0:
            reply.start()
        reply.write(event(reply_choice))
    reply.write(DONE)


ALL = "one request for all samples of a task"
EACH = "one request per sample"
FOUR = f"{ALL}, one per sample where there are more than 4 stop strings"
NONE = f"{ALL}, one per sample where there are more than 0 stop strings"
GAPS = {
    # server: (its answer, stop strings asked for, requests for a task, fields that are not sent, what the run records)
    "none": (full_server, STOPS, 1, (), ALL),
    "ignores n": (lambda reply, body: full_server(reply, {**body, "n": 1}), STOPS, 3, ("n",), EACH),
    "refuses n": (refusing(lambda body: "n" in body), STOPS, 3, ("n",), EACH),
    "fails for n": (refusing(lambda body: "n" in body, status=500), STOPS, 3, ("n",), EACH),
    "takes four stop strings": (refusing(lambda body: len(body.get("stop", ())) > 4), STOPS, 3, ("n",), FOUR),
    "takes four stop strings, and no more are asked for": (
        refusing(lambda body: len(body.get("stop", ())) > 4), STOPS[3:6], 1, (), FOUR),
    "takes no stop strings": (refusing(lambda body: "stop" in body), STOPS, 3, ("n", "stop"), NONE),
    "ignores stop strings": (lambda reply, body: full_server(reply, {**body, "stop": []}), STOPS, 1, (), ALL),
    "refuses seeds": (refusing(lambda body: "seed" in body), STOPS, 1, ("seed",), ALL),
    "fails for log-probabilities": (
        refusing(lambda body: "logprobs" in body, status=500), STOPS, 1, ("logprobs",), ALL),
    "refuses the usage": (refusing(lambda body: "stream_options" in body), STOPS, 1, ("stream_options",), ALL),
    "refuses more than two choices": (refusing(lambda body: body.get("n", 1) > 2), STOPS, 4, (), EACH),
    "refuses several greedy choices": (
        refusing(lambda body: body.get("temperature") == 0 and "n" in body), STOPS, 4, (), EACH),
}  # fmt: skip


@pytest.mark.parametrize("gap", GAPS)
def test_what_a_server_lacks_is_made_up_on_this_side(gap):
    answer, stop, n_requests, absent, recorded = GAPS[gap]
    with serve_stub(answer) as stub:
        engine = RemoteEngine.load(RemoteTarget("m", stub.url))
        stub.bodies.clear()
        asked = Request(
            "def add(a, b):\n", n=3, seed=7, budget_s=LONG_S, stop=stop, sampling=SamplingParams(temperature=0.0)
        )
        done = engine.generate(asked)
        # As a server with everything, and our own engine, would answer: without the stop string.
        assert [(s.text, s.finish_reason) for s in done.samples] == [(BODY, "stop")] * 3
        assert len(stub.bodies) == n_requests
        assert not [name for body in stub.bodies for name in absent if name in body]
        seeds = [body["seed"] for body in stub.bodies if "seed" in body]
        if n_requests >= 3 and seeds:
            assert sorted(seeds[-3:]) == [derive_seed(7, i) for i in range(3)] == sorted(s.seed for s in done.samples)
        assert engine.get_provenance()["n_requests"] == recorded
        # What was found out holds for the next task.
        stub.bodies.clear()
        engine.generate(asked)
        assert len(stub.bodies) == min(n_requests, 3)


def test_seeds_of_requests_differ_between_samples_and_between_runs():
    seeds = {derive_seed(seed, i) for seed in range(100) for i in range(256)}
    assert len(seeds) == 100 * 256
    assert 0 <= derive_seed(2**63 - 1, 1023) < 2**31


def test_only_as_many_stop_strings_are_sent_as_the_server_takes():
    with serve_stub(refusing(lambda body: len(body.get("stop", ())) > 4)) as stub:
        engine = RemoteEngine.load(RemoteTarget("m", stub.url))
        assert engine.get_provenance()["server_max_stops"] == 4
        engine.generate(Request("p", stop=STOPS, budget_s=LONG_S))
        assert stub.bodies[-1]["stop"] == list(STOPS[:4])


def one_request_of_several_fails(reply: Reply, body: dict) -> None:
    if body.get("seed") == derive_seed(0, 1):
        reply.refuse("the second one fails", 500)
    else:
        full_server(reply, {**body, "n": 1})


def test_of_several_requests_one_that_fails_is_an_error_and_the_others_are_samples():
    with serve_stub(one_request_of_several_fails) as stub:
        engine = RemoteEngine.load(RemoteTarget("m", stub.url))
        done = engine.generate(Request("p", n=3, budget_s=LONG_S))
    assert [(s.index, s.finish_reason) for s in done.samples] == [(0, "stop"), (1, "error"), (2, "stop")]
