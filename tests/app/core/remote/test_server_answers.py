"""Forms of an answer: each is the right text, or one sentence that says what is wrong; never a wrong sample."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable

import pytest

from app.core.remote.chunks import RemoteServerError
from app.core.remote.engine import RemoteEngine
from app.core.remote.target import KEY_VARIABLE, RemoteTarget
from decoding.models.errors import ModelError
from decoding.request import Request, RequestError
from tests.app.stub_server import DONE, EVENTS, LONG_S, Reply, choice, event, serve_stub, tokens

BODY = "    return a + b\n"


def stream(*texts: str, reason: str = "stop") -> Callable[[Reply, dict], None]:
    """A server that makes one choice of these pieces, whatever is asked for."""

    def answer(reply: Reply, body: dict) -> None:
        reply.start().write(*(event(choice(text)) for text in texts), event(choice("", reason)), DONE)

    return answer


TEXTS = {
    # server: (its answer, stop strings, the sample)
    "a stop string over three chunks": (stream("a", "\n", "d", "ef f", "()", reason="length"), ("\ndef",), "a"),
    "the beginning of a stop string only": (stream("a\nde", "ad"), ("\ndef",), "a\ndead"),
    "a stop string begins at the end": (stream("a\nde"), ("\ndef",), "a\nde"),
    "the stop string that is complete first ends the text": (stream("xab", "cd"), ("abcd", "b"), "xa"),
    "the same in one chunk": (stream("xabcd"), ("abcd", "b"), "xa"),
    "a stop string in the text of a server that knows it": (stream("a", "\ndef f"), ("\ndef",), "a"),
    "text null": (lambda reply, _: reply.start().write(event(choice("a")), event(choice(None, "stop")), DONE), (), "a"),
    "an empty finish reason": (lambda reply, _: reply.start().write(
        event(choice("a", "")), event(choice("b", "stop")), DONE), (), "ab"),
    "keep-alives and other fields": (lambda reply, _: reply.start().write(
        ": ping\n\n", "event: x\nid: 3\n", event(choice("a")), "\n\n: ping\n", event(choice("b", "stop")), DONE),
        (), "ab"),
    "lines ended as in HTTP": (lambda reply, _: reply.start().write(
        event(choice("a", "stop")).replace("\n", "\r\n"), DONE.replace("\n", "\r\n")), (), "a"),
    "no space after the colon, no [DONE]": (lambda reply, _: reply.start().write(
        event(choice("a", "stop")).replace("data: ", "data:")), (), "a"),
    "every byte by itself": (lambda reply, _: reply.start().write(*(
        bytes([byte]) for byte in ("data: " + json.dumps({"choices": [choice("é🎉", "stop")]}, ensure_ascii=False)
                                   + "\n\n").encode())), (), "é🎉"),
    "half a character": (lambda reply, _: reply.start().write(
        event(choice("a\ud83c")), event(choice("b", "stop")), DONE), (), "a\N{REPLACEMENT CHARACTER}b"),
    "choices that nobody asked for": (lambda reply, _: reply.start().write(
        *(event(choice("wrong", "stop", index)) for index in (-1, None, True, "0", 0.0, 7)),
        event({"text": "wrong"}), event(choice("a", "stop")), DONE), (), "a"),
    "a choice after its end": (lambda reply, _: reply.start().write(
        event(choice("a", "stop")), event(choice("b", "stop")), DONE), (), "a"),
    "usage of wrong types": (lambda reply, _: reply.start().write(
        event(choice("a", "stop")), event(usage={"prompt_tokens": "9", "prompt_tokens_details": 3}),
        event(usage={"prompt_tokens": -1}), event(usage={"prompt_tokens": True}), event(usage=[1]), DONE), (), "a"),
}  # fmt: skip


@pytest.mark.parametrize("server", TEXTS)
def test_the_text_is_what_the_server_wrote_up_to_a_stop_string(server):
    answer, stop, text = TEXTS[server]
    with serve_stub(answer) as stub:
        done = RemoteEngine(RemoteTarget("m", stub.url)).generate(Request("p", stop=stop, budget_s=LONG_S))
    assert [(s.text, s.finish_reason) for s in done.samples] == [(text, "stop")]
    assert done.n_prompt_tokens == 0


@pytest.mark.parametrize(
    "logprobs",
    [
        {"tokens": ["a"], "token_logprobs": [float("nan")]},
        {"tokens": ["a"], "token_logprobs": [float("-inf")]},
        {"tokens": ["a"], "token_logprobs": ["-0.5"]},
        {"tokens": ["a"], "token_logprobs": [0.7]},
        {"tokens": ["a"], "token_logprobs": [-(10**400)]},
        {"tokens": ["a", "b"], "token_logprobs": [-0.5]},
        {"tokens": "a", "token_logprobs": [-0.5]},
        {"token_logprobs": -0.5},
        [-0.5],
        "-0.5",
    ],
)
def test_log_probabilities_in_a_wrong_form_count_as_none(logprobs):
    def answer(reply: Reply, _: dict) -> None:
        reply.start().write(event(choice("b", logprobs=tokens("b"))), event(choice("a", "stop", logprobs=logprobs)))

    with serve_stub(answer) as stub:
        (sample,) = RemoteEngine(RemoteTarget("m", stub.url)).generate(Request("p", budget_s=LONG_S)).samples
    assert (sample.text, sample.finish_reason, sample.mean_logprob, sample.n_tokens) == ("ba", "stop", None, 2)


def test_log_probabilities_of_only_some_tokens_count_as_none_and_the_server_counts_the_tokens_of_each_choice():
    """llama.cpp leaves out the tokens that it drafted."""

    def answer(reply: Reply, _: dict) -> None:
        some = [event(choice("a", None, i, tokens("a"))) + event(choice(" + b", None, i)) for i in range(2)]
        ends = [event(choice("", "stop", i), timings={"predicted_n": 3 + i, "draft_n": 2}) for i in range(2)]
        reply.start().write(*some, *ends, event(usage={"completion_tokens": 7}), DONE)

    with serve_stub(answer) as stub:
        done = RemoteEngine(RemoteTarget("m", stub.url)).generate(Request("p", n=2, budget_s=LONG_S))
    assert [(s.text, s.logprobs, s.ends, s.n_tokens) for s in done.samples] == [
        ("a + b", [], [], 3),
        ("a + b", [], [], 4),
    ]


def test_log_probabilities_may_come_after_their_text_or_without_the_texts_of_tokens():
    def answer(reply: Reply, _: dict) -> None:
        late = {"tokens": ["a", " +", " b", ""], "token_logprobs": [-0.5] * 4}
        unnamed = {"tokens": None, "token_logprobs": [-0.5] * 3}
        reply.start().write(
            event(choice("a + b", None, 0), choice("a", None, 1)), event(choice("", "stop", 0, late)),
            event(choice(" + b", "stop", 1, unnamed)), DONE,
        )  # fmt: skip

    with serve_stub(answer) as stub:
        done = RemoteEngine(RemoteTarget("m", stub.url)).generate(Request("p", n=2, budget_s=LONG_S))
    assert [(s.text, s.mean_logprob, s.n_tokens) for s in done.samples] == [("a + b", -0.5, 4), ("a + b", -0.5, 3)]


def test_tokens_after_a_stop_string_do_not_count_where_it_came_in_the_middle_of_a_chunk():
    def answer(reply: Reply, _: dict) -> None:
        known = {"tokens": ["a", "\n", "def", " f"], "token_logprobs": [-1.0, -2.0, -3.0, -50.0]}
        reply.start().write(event(choice("a\ndef f", logprobs=known)))

    with serve_stub(answer) as stub:
        (sample,) = (
            RemoteEngine(RemoteTarget("m", stub.url)).generate(Request("p", budget_s=LONG_S, stop=("\nd",))).samples
        )
    # The token that completes a stop string counts, as in our own engine.
    assert (sample.text, sample.stop_string, sample.logprobs) == ("a", "\nd", [-1.0, -2.0, -3.0])


FAULTS = {
    # server: (its answer, what the error says)
    "no JSON": (lambda reply, _: reply.start().write("data: {oops\n\n"), "sends an event that is not JSON"),
    "JSON without end": (lambda reply, _: reply.start().write("data: " + "[" * 50_000 + "\n\n"), "is not JSON"),
    "a list": (lambda reply, _: reply.start().write("data: [1]\n\n"), "is not a JSON object"),
    "choices as text": (lambda reply, _: reply.start().write('data: {"choices": "a"}\n\n'), "choices: Input should"),
    "a choice as text": (lambda reply, _: reply.start().write(event("a")), "choices.0: Input should"),
    "text as a number": (lambda reply, _: reply.start().write(event(choice(5))), "text: Value error, int is not"),
    "a finish reason as a number": (lambda reply, _: reply.start().write(
        event(choice("a", 5))), "choices.0.finish_reason: Input should be a valid string"),
    "an error object": (lambda reply, _: reply.start().write(
        'data: {"error": {"message": "out of memory"}}\n\n'), "breaks off: out of memory"),
    "only index null": (lambda reply, _: reply.start().write(
        event(choice("a", "stop", None)), DONE), "without a choice that was asked for"),
    "nothing": (lambda reply, _: reply.start().write(DONE), "without a choice that was asked for"),
    "an answer that is not streamed": (lambda reply, _: reply.start(
        200, {"Content-Type": "application/json"}).write('{"choices": []}'), "answers without streaming"),
    "an endless line": (lambda reply, _: reply.start().write_forever(b"a" * 65536), "an event of more than"),
    "an endless event": (lambda reply, _: reply.start().write_forever(b"data: aaaaaaaaaaaaaaaa\n" * 1000),
                         "an event of more than"),
    "a giant event": (lambda reply, _: reply.start().write(event(choice("a" * 2_000_000))), "an event of more than"),
    "a gzip bomb": (lambda reply, _: reply.start(200, {**EVENTS, "Content-Encoding": "gzip"}).write_forever(
        gzip.compress(b"a" * 1_000_000)), "compresses its answer"),
    "an endless error": (lambda reply, _: reply.start(500, {}).write_forever(
        b"wrong " * 1000), "answers 500: wrong wrong"),
    "a page instead of an error": (lambda reply, _: reply.start(502, {}).write("<h1>Bad\nGateway</h1>"),
                                   "answers 502: Bad Gateway"),
    "no answer": (lambda reply, _: (_ for _ in ()).throw(ConnectionResetError), "broke the connection off"),
}  # fmt: skip


@pytest.mark.parametrize("server", FAULTS)
def test_a_fault_of_the_server_is_one_sentence(server):
    answer, sentence = FAULTS[server]
    with serve_stub(answer) as stub:
        engine = RemoteEngine(RemoteTarget("m", stub.url))
        with pytest.raises(RemoteServerError) as failed:
            engine.generate(Request("p", budget_s=LONG_S))
        assert str(failed.value).startswith(stub.url)
        assert sentence in str(failed.value)
        assert len(str(failed.value)) < 700
        with pytest.raises(ModelError, match="http"):
            RemoteEngine.load(RemoteTarget("m", stub.url))


@pytest.mark.parametrize(
    "fault",
    [
        "data: {oops\n\n",
        'data: {"error": {"message": "out of memory"}}\n\n',
        event(choice(5)),
        "data: " + "a" * 1_000_000,
    ],
)
def test_a_fault_in_the_middle_leaves_the_text_so_far_as_an_error_and_finished_samples_as_they_are(fault):
    def answer(reply: Reply, _: dict) -> None:
        reply.start().write(event(choice("half")), event(choice("whole", "stop", 1)), fault)

    with serve_stub(answer) as stub:
        done = RemoteEngine(RemoteTarget("m", stub.url)).generate(Request("p", n=2, budget_s=LONG_S))
    assert [(s.text, s.finish_reason) for s in done.samples] == [("half", "error"), ("whole", "stop")]
    assert len(stub.bodies) == 1  # after the first byte nothing is asked again


def test_a_connection_cut_in_the_middle_leaves_the_text_so_far():
    def answer(reply: Reply, _: dict) -> None:
        reply.start(200, {**EVENTS, "Content-Length": "100000"}).write(event(choice("half")))
        raise ConnectionResetError

    with serve_stub(answer) as stub:
        (sample,) = RemoteEngine(RemoteTarget("m", stub.url)).generate(Request("p", budget_s=LONG_S)).samples
    assert (sample.text, sample.finish_reason) == ("half", "error")


def test_a_redirect_is_named_and_not_followed():
    with serve_stub(stream(BODY)) as other:
        location = f"{other.url}/completions"
        headers = {"Location": location, "Content-Length": "0"}
        with (
            serve_stub(lambda reply, _: reply.start(307, headers)) as stub,
            pytest.raises(RequestError, match=f"redirects to {location}: name that address"),
        ):
            RemoteEngine(RemoteTarget("m", stub.url)).generate(Request("p", budget_s=LONG_S))
        assert other.bodies == []


def test_a_rejected_key_is_named(monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, "sk-wrong")
    with (
        serve_stub(lambda reply, _: reply.refuse("invalid key sk-wrong", 401)) as stub,
        pytest.raises(ModelError, match=f"rejected the API key: set {KEY_VARIABLE}") as failed,
    ):
        RemoteEngine.load(RemoteTarget("m", stub.url))
    assert "sk-wrong" not in str(failed.value)
