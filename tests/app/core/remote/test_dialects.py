"""Servers of every dialect: each is asked as it wants to be, and gives what a model here would give."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from app.core.remote.connection import run_in_own_loop
from app.core.remote.engine import RemoteEngine
from app.core.remote.target import RemoteTarget
from app.jobs.work.decode_job import build_task_prompt
from decoding.models.errors import ModelError
from decoding.request import Request, RequestError
from evaluation.datasets import Task
from evaluation.prompting import PromptError
from tests.app.stub_server import CHAT, COMPLETIONS, DONE, LONG_S, Reply, StubServer, choice, event, serve_stub, tokens

BODY = "    return a + b\n"
CODE = f"def add(a, b):\n{BODY}"
REPLY = f"Here it is:\n\n```python\n{CODE}```\nI hope that it helps."
TASK = Task("t", "def add(a, b):\n", "add", "def check(candidate): pass", BODY)
GAP = Task("t", "def add(a, b):\n    return ", "add", "def check(candidate): pass", "a + b", suffix="\n")
FAMILY_MARKERS = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")


def delta(text: str, reason: str | None = None, index: int = 0, **others: Any) -> dict[str, Any]:
    """A choice of a chat's event."""
    return {"index": index, "delta": {"content": text, **others}, "finish_reason": reason}


def answer_everything(reply: Reply, body: dict[str, Any]) -> None:
    """A server with both dialects. Its chat begins with prose, or writes on from an open fence."""
    if reply.path == COMPLETIONS:
        texts = [BODY]
        made = [choice(BODY, "stop", i, tokens(BODY)) for i in range(body.get("n", 1))]
    else:
        is_continued = body["messages"][-1]["role"] == "assistant"
        texts = [CODE, "```\nI hope"] if is_continued else [REPLY[:17], REPLY[17:30], REPLY[30:]]
        made = [delta(text, None, i) for i in range(body.get("n", 1)) for text in texts]
        made += [delta("", "stop", i) for i in range(body.get("n", 1))]
    reply.start().write(*map(event, made), DONE)


def decode(stub: StubServer, task: Task, mode: str, **options: Any) -> tuple[RemoteEngine, Any]:
    """The task, prompted and decoded as a run does it."""
    engine = RemoteEngine.load(RemoteTarget("m", stub.url))
    stub.bodies.clear()
    stub.paths.clear()
    run = SimpleNamespace(prompt_mode=mode, provenance={}, target="openai:m@x")
    prompt, text = build_task_prompt(engine, run, task)  # type: ignore[arg-type]
    return engine, engine.generate(Request(text, stop=prompt.stop, budget_s=LONG_S, **options))


LLAMA_PAGES = {
    "/props": {"build_info": "b1-abc", "default_generation_settings": {}},
    "/slots": [{"speculative": True, "params": {"speculative.types": "ngram-simple"}}],
}
VLLM_PAGES = {"/version": {"version": "0.26.0"}, "/v1/models": {"data": [{"id": "m", "owned_by": "vllm"}]}}
SGLANG_PAGES = {"/get_server_info": {"version": "0.5", "api_key": "sk-theirs", "speculative_algorithm": "EAGLE3"}}
NEW_SGLANG_PAGES = {
    "/server_info": {"version": "0.5.23", "speculative_algorithm": "NGRAM"},
    "/v1/models": {"data": [{"id": "m", "owned_by": "sglang"}]},
}
VLLM_DEVELOPER_PAGES = {**VLLM_PAGES, "/server_info": {"vllm_config": "model='m'", "version": "of another form"}}
DIALECTS = {
    # server: (paths, pages, mode, the path asked, fields sent, the run records)
    "completions only": ((COMPLETIONS,), {}, "auto", COMPLETIONS, {"prompt": TASK.prompt},
                         {"server_dialects": "completions"}),
    "both, unknown": ((COMPLETIONS, CHAT), {}, "auto", CHAT, {"top_k": None}, {"server_dialects": "completions, chat"}),
    "both, as completion": ((COMPLETIONS, CHAT), {}, "completion", COMPLETIONS, {"prompt": TASK.prompt}, {}),
    "chat only": ((CHAT,), {}, "auto", CHAT, {}, {"server_dialects": "chat"}),
    "vLLM": ((COMPLETIONS, CHAT), VLLM_PAGES, "auto", CHAT,
             {"continue_final_message": True, "add_generation_prompt": False, "top_k": -1, "repetition_penalty": 1.0},
             {"server": "vLLM", "server_version": "0.26.0", "server_continues_replies": "yes"}),
    "vLLM that tells developers more": ((COMPLETIONS,), VLLM_DEVELOPER_PAGES, "auto", COMPLETIONS, {},
                                        {"server": "vLLM", "server_version": "0.26.0"}),
    "SGLang by its new page": ((COMPLETIONS,), NEW_SGLANG_PAGES, "auto", COMPLETIONS, {"min_p": 0.0},
                               {"server": "SGLang", "server_version": "0.5.23",
                                "server_speculation": '{"speculative_algorithm": "NGRAM"}'}),
    "SGLang": ((COMPLETIONS, CHAT), SGLANG_PAGES, "chat", CHAT, {"continue_final_message": True},
               {"server": "SGLang", "server_speculation": '{"speculative_algorithm": "EAGLE3"}'}),
    "llama.cpp": ((COMPLETIONS, CHAT), LLAMA_PAGES, "auto", CHAT, {"top_k": 0, "min_p": 0.0},
                  {"server": "llama.cpp", "server_version": "b1-abc",
                   "server_speculation": '{"speculative": true, "speculative.types": "ngram-simple"}'}),
}  # fmt: skip


@pytest.mark.parametrize("server", DIALECTS)
def test_a_server_is_asked_in_its_dialect_and_the_run_records_it(server):
    paths, pages, mode, path, fields, recorded = DIALECTS[server]
    with serve_stub(answer_everything, paths, pages) as stub:
        engine, done = decode(stub, TASK, mode, n=2)
        assert stub.paths == [path]
        assert {name: stub.bodies[0].get(name) for name in fields} == fields
        assert {name: engine.get_provenance().get(name) for name in recorded} == recorded
    expected = BODY if path == COMPLETIONS else CODE.removesuffix("\n")  # before the closing fence
    assert [(s.text, s.finish_reason) for s in done.samples] == [(expected, "stop")] * 2
    assert "sk-theirs" not in str(engine.get_provenance())


def test_what_a_server_does_not_have_is_said_with_the_remedy():
    with serve_stub(answer_everything) as stub, pytest.raises(PromptError, match="use --prompt-mode completion"):
        decode(stub, TASK, "chat")
    with serve_stub(answer_everything, (CHAT,)) as stub, pytest.raises(RequestError, match="conversations only, use c"):
        decode(stub, TASK, "completion")
    with serve_stub(answer_everything, ()) as stub, pytest.raises(ModelError, match="Not Found"):
        RemoteEngine.load(RemoteTarget("m", stub.url))


def thinking(reply: Reply, body: dict[str, Any]) -> None:
    reply.start().write(
        event(delta("", reasoning_content="Let me")), event(delta("", reasoning_content=" see.")),
        event(delta("```python\nx = 1\n```", "stop")), event(usage={"prompt_tokens": 9, "completion_tokens": 12}), DONE,
    )  # fmt: skip


def never_fenced(reply: Reply, body: dict[str, Any]) -> None:
    reply.start().write(event(delta("def f(): ")), event(delta("pass", "stop")), DONE)


def with_logprobs(reply: Reply, body: dict[str, Any]) -> None:
    content = [{"token": text, "logprob": -0.5, "top_logprobs": []} for text in ("```", "py\n", "x", "=1")]
    reply.start().write(event({**delta("```py\nx=1", "stop"), "logprobs": {"content": content}}), DONE)


@pytest.mark.parametrize(
    ("answer", "text", "n_tokens", "mean"),
    [(thinking, "x = 1", 3, None), (never_fenced, "def f(): pass", 2, None), (with_logprobs, "x=1", 4, -0.5)],
)
def test_the_answer_of_a_chat_is_what_is_in_its_fence(answer, text, n_tokens, mean):
    with serve_stub(answer, (CHAT,)) as stub:
        _, done = decode(stub, TASK, "chat")
    (sample,) = done.samples
    assert (sample.text, sample.n_tokens, sample.mean_logprob) == (text, n_tokens, mean)
    assert sample.ends == ([0, 0, 1, 3] if answer is with_logprobs else [])


def fill_gap(reply: Reply, body: dict[str, Any]) -> None:
    """llama.cpp: ignores a suffix, has /infill."""
    reply.start()
    if reply.path == COMPLETIONS:
        reply.write(event(choice("x", "stop")), event(usage={"prompt_tokens": 6, "completion_tokens": 1}), DONE)
        return
    last = {"content": "", "stop": True, "stop_type": "eos", "tokens_predicted": 4, "tokens_evaluated": 7,
            "timings": {"draft_n": 6, "draft_n_accepted": 3}}  # fmt: skip
    for document in ({"content": "a +", "stop": False, "index": 0}, {"content": " b", "stop": False}, last):
        reply.write(f"data: {json.dumps(document)}\n\n")


def fill_suffix(reply: Reply, body: dict[str, Any]) -> None:
    n_read = 6 + len(body.get("suffix", "")) // 4
    reply.start().write(event(choice("a + b", "stop")), event(usage={"prompt_tokens": n_read}), DONE)


def know_markers(reply: Reply, body: dict[str, Any]) -> None:
    if reply.path == "/tokenize":
        is_known = body["prompt"] in (*FAMILY_MARKERS, "\n")
        reply.start(200, {}).write(json.dumps({"tokens": [1] if is_known else [1, 2]}))
    elif "suffix" in body:
        reply.refuse("suffix is not currently supported")
    else:
        reply.start().write(event(choice("a + b<|fim_prefix|>more", "stop")), DONE)


RENDERED = "<|fim_prefix|>def add(a, b):\n    return <|fim_suffix|>\n<|fim_middle|>"
GAPS: dict[str, tuple[Callable[[Reply, dict], None], tuple[str, ...], str, dict[str, Any]]] = {
    "suffix": (fill_suffix, (COMPLETIONS,), COMPLETIONS, {"prompt": GAP.prompt, "suffix": "\n"}),
    "/infill": (fill_gap, (COMPLETIONS, "/infill"), "/infill",
                {"input_prefix": GAP.prompt, "input_suffix": "\n", "n_predict": 512}),
    "Qwen (with Zeta 1), CodeGemma, Granite 4": (
        know_markers, (COMPLETIONS, "/tokenize"), COMPLETIONS, {"prompt": RENDERED}),
}  # fmt: skip


@pytest.mark.parametrize("way", GAPS)
def test_a_gap_is_filled_in_the_way_that_the_server_has(way):
    answer, paths, path, fields = GAPS[way]
    with serve_stub(answer, paths) as stub:
        engine, done = decode(stub, GAP, "auto")
        assert stub.paths == [path]
        assert {name: stub.bodies[0].get(name) for name in fields} == fields
    assert [(s.text, s.finish_reason) for s in done.samples] == [("a + b", "stop")]
    assert engine.get_provenance()["server_infill"] == way
    if way == "/infill":
        (sample,) = done.samples
        assert (sample.n_tokens, sample.n_drafted, sample.n_accepted, sample.n_rounds) == (4, 6, 3, 1)


def test_a_header_with_an_everyday_word_leaves_the_pages_of_a_server_readable(monkeypatch):
    monkeypatch.setenv("BASSLINE_REMOTE_HEADERS", json.dumps({"x-tenant": "1", "x-debug": "true"}))
    with serve_stub(
        know_markers, (COMPLETIONS, "/tokenize"), {"/props": {"build_info": "b1", "has_draft": True}}
    ) as stub:
        told = RemoteEngine.load(RemoteTarget("m", stub.url)).get_provenance()
    assert told["server_infill"] == "Qwen (with Zeta 1), CodeGemma, Granite 4"
    assert (told["server_version"], told["server_speculation"]) == ("b1", '{"has_draft": true}')


def test_a_server_that_ignores_a_suffix_is_not_asked_to_fill_gaps():
    with serve_stub(fill_gap) as stub, pytest.raises(PromptError, match="no fill-in-the-middle tokens"):
        decode(stub, GAP, "infill")


def test_accepted_tokens_are_read_from_the_counters_of_a_server_that_has_them():
    rounds = iter(range(100))

    def count() -> str:
        n = next(rounds)
        return f'vllm:spec_decode_num_draft_tokens_total{{engine="0"}} {10.0 * n}\n' + "".join(
            f'vllm:spec_decode_num_accepted_tokens_total{{engine="{e}"}} {1.0 * n}\n' for e in range(2)
        )

    with serve_stub(answer_everything, pages={**VLLM_PAGES, "/metrics": count}) as stub:
        _, done = decode(stub, TASK, "auto")
    (sample,) = done.samples
    assert (sample.n_drafted, sample.n_accepted) == (10, 1)  # no more than it has tokens


def test_fields_behind_the_address_are_sent_with_every_request_and_recorded():
    with serve_stub(answer_everything) as stub:
        engine = RemoteEngine.load(RemoteTarget("m", stub.url, {"chat_template_kwargs": {"enable_thinking": False}}))
        assert all(body["chat_template_kwargs"] == {"enable_thinking": False} for body in stub.bodies)
        assert json.loads(str(engine.get_provenance()["extra_body"])) == {
            "chat_template_kwargs": {"enable_thinking": False}
        }


def test_log_probabilities_of_completions_may_come_as_a_chat_sends_them():
    def answer(reply: Reply, body: dict[str, Any]) -> None:
        content = [{"id": 1, "token": text, "bytes": [], "logprob": -0.25} for text in ("a", "b")]
        reply.start().write(event(choice("ab", "stop", logprobs={"content": content})), DONE)

    with serve_stub(answer) as stub:
        _, done = decode(stub, TASK, "completion")
    assert (done.samples[0].n_tokens, done.samples[0].mean_logprob, done.samples[0].ends) == (2, -0.25, [1, 2])


@pytest.mark.parametrize("runs_in_loop", [False, True], ids=["alone", "inside another event loop"])
def test_a_run_for_throughput_sends_several_requests_at_once(runs_in_loop):
    together = threading.Barrier(3, timeout=LONG_S)

    def answer(reply: Reply, body: dict[str, Any]) -> None:
        if body["prompt"] in ("p0", "p1", "p2"):
            together.wait()
        if body["prompt"] == "p3":
            reply.refuse("too long")
        else:
            reply.start().write(event(choice(body["prompt"], "stop")), DONE)

    updates: set[int] = set()
    with serve_stub(answer) as stub:
        requests = (Request(f"p{i}", budget_s=LONG_S) for i in range(12))
        engine = RemoteEngine(RemoteTarget("m", stub.url))
        decoded = engine.generate_many(requests, lambda position, _: updates.add(position))

        async def collect() -> dict[int, Any]:
            return dict(decoded)

        outcomes = run_in_own_loop(collect()) if runs_in_loop else dict(decoded)
    refused = outcomes.pop(3)
    assert "refuses: too long" in str(refused)
    assert {i: done.samples[0].text for i, done in outcomes.items()} == {i: f"p{i}" for i in range(12) if i != 3}
    assert updates == set(outcomes)


def test_a_fence_that_opens_the_answer_is_not_sent_as_a_stop_string():
    def answer(reply: Reply, body: dict[str, Any]) -> None:
        text = REPLY
        for stop in body.get("stop", ()):
            text = text.partition(stop)[0]
        reply.start().write(event(delta(text, "stop")), DONE)

    with serve_stub(answer, (CHAT,)) as stub:
        _, done = decode(stub, TASK, "chat")
    assert [(s.text, s.finish_reason) for s in done.samples] == [(CODE.removesuffix("\n"), "stop")]


def test_a_server_that_finds_stop_strings_in_the_prompt_gets_none():
    """As transformers: a prompt that ends with a newline and an answer that begins with `def` are the stop `\\ndef`."""

    def answer(reply: Reply, body: dict[str, Any]) -> None:
        full = body["prompt"] + "def f(): pass"
        is_found = any(full.find(stop) >= len(body["prompt"]) - len(stop) + 1 for stop in body.get("stop", ()))
        text = "d" if is_found else "def" if body["max_tokens"] == 2 else "def f(): pass"
        reason = "length" if body["max_tokens"] == 2 and not is_found else "stop"
        reply.start().write(event(choice(text, reason)), DONE)

    with serve_stub(answer) as stub:
        engine, done = decode(stub, TASK, "completion")
    assert engine.get_provenance()["server_max_stops"] == 0
    assert [s.text for s in done.samples] == ["def f(): pass"]
