"""The requests that public clients send, field by field as their sources make them."""

from __future__ import annotations

import json

import pytest

from app.openai.infill import indented
from tests.app.openai_service import MODEL
from tests.fakes import RIGHT

# llama.vscode, src/llama-server.ts: createRequestPayload, with the defaults of its package.json.
LLAMA_VSCODE = {
    "input_prefix": "def add(a, b):\n",
    "input_suffix": "\nprint(add(1, 2))\n",
    "input_extra": [{"text": "x = 1\n", "time": 17, "filename": "x.py"}],
    "prompt": "    re",
    "n_predict": 128,
    "top_k": 40,
    "top_p": 0.99,
    "stream": False,
    "samplers": ["top_k", "top_p", "infill"],
    "cache_prompt": True,
    "t_max_prompt_ms": 500,
    "t_max_predict_ms": 1000,
}
# The same, when it prepares the server for the next request (noPredict).
LLAMA_VSCODE_PREPARES = {
    "input_prefix": "",
    "input_suffix": "",
    "input_extra": LLAMA_VSCODE["input_extra"],
    "prompt": "",
    "n_predict": 0,
    "samplers": [],
    "cache_prompt": True,
    "t_max_prompt_ms": 500,
    "t_max_predict_ms": 1,
}
# Continue, core/llm/openaiTypeConverters.ts: toChatBody and toCompleteBody; what is undefined is not sent.
CONTINUE_CHAT = {
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Write add."}],
    "model": MODEL,
    "max_tokens": 64,
    "temperature": 0.5,
    "stream": True,
    "stream_options": {"include_usage": True},  # packages/openai-adapters/src/apis/OpenAI.ts: modifyChatBody
}
CONTINUE_COMPLETE = {
    "prompt": "<PRE>def add(a, b):\n<SUF>\n<MID>",
    "model": MODEL,
    "max_tokens": 64,
    "temperature": 0.01,
    "stream": True,
    "stop": ["<PRE>", "\n\n", "```"],
}
# lm-evaluation-harness, lm_eval/models/openai_completions.py: LocalCompletionsAPI._create_payload.
LM_EVAL_SCORES = {
    "model": MODEL,
    "prompt": [[97, 98, 99], [97, 98]],
    "temperature": 0,
    "max_tokens": 1,
    "logprobs": 1,
    "seed": 1234,
    "echo": True,
}
LM_EVAL_GENERATES = {
    "prompt": [[97, 98]],
    "model": MODEL,
    "max_tokens": 32,
    "temperature": 0,
    "stop": ["\n\n", "<|endoftext|>"],
    "seed": 1234,
}
# The same file: LocalChatCompletion._create_payload.
LM_EVAL_CHAT = {
    "messages": [{"role": "user", "content": "Write add."}],
    "model": MODEL,
    "max_tokens": 32,
    "temperature": 0,
    "stop": ["\n\n"],
    "seed": 1234,
}


def events(answer) -> list[dict]:
    """The documents of a stream, whose last line is [DONE]."""
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("path", ["/infill", f"/v1/models/{MODEL}/infill"])
def test_llama_vscode_gets_the_text_for_the_gap(post, engine, path):
    answer = post(path, LLAMA_VSCODE | ({"model": MODEL} if path == "/infill" else {})).json()
    assert answer["content"] == RIGHT
    assert (answer["stop"], answer["truncated"], answer["stop_type"], answer["tokens_cached"]) == (
        True,
        False,
        "eos",
        5,
    )
    assert answer["timings"]["predicted_n"] == 4
    assert answer["timings"]["prompt_ms"] == pytest.approx(50)
    assert answer["timings"]["predicted_per_second"] > 0
    (request,) = engine.requests
    assert request.prompt == "<PRE>x.py\nx = 1\n\n\ndef add(a, b):\n    re<SUF>\nprint(add(1, 2))\n<MID>"
    assert (request.max_new_tokens, request.budget_s, request.sampling.temperature) == (128, 1.5, 0.0)
    assert request.prefix_cache


def test_llama_vscode_prepares_the_cache_and_gets_no_text(post, engine):
    answer = post(f"/v1/models/{MODEL}/infill", LLAMA_VSCODE_PREPARES)
    assert (answer.status_code, answer.json()["content"]) == (200, "")
    assert engine.requests[0].prompt == "<PRE>x.py\nx = 1\n\n\n<SUF><MID>"


@pytest.mark.parametrize(
    ("asked", "budget_s", "n_predict"),
    [
        ({}, 1.5, 128),
        ({"budget": 4}, 4, 128),
        ({"t_max_predict_ms": 0}, 60, 128),
        ({"t_max_prompt_ms": 10**9, "n_predict": -1}, 600, 128),
        ({"n_predict": 7}, 1.5, 7),
    ],
)
def test_the_milliseconds_of_an_infill_are_its_budget(post, engine, asked, budget_s, n_predict):
    post(f"/v1/models/{MODEL}/infill", LLAMA_VSCODE | asked)
    assert (engine.requests[0].budget_s, engine.requests[0].max_new_tokens) == (budget_s, n_predict)


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"temperature": 0.8}, "top_k"),
        ({"stream": True}, "stream"),
        ({"n": 2}, "n"),
        ({"n_predict": -2}, "n_predict"),
        ({"input_extra": [{"filename": "x"}]}, "input_extra"),
        ({"input_prefix": "x" * 200_001}, "input_prefix"),
        ({"lora": [{"id": 0, "scale": 0.5}]}, "lora"),
        ({"grammar": "x"}, "grammar"),
    ],
)
def test_what_an_infill_cannot_have_is_refused_by_name(post, asked, param):
    answer = post(f"/v1/models/{MODEL}/infill", LLAMA_VSCODE | asked)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


def test_an_infill_needs_the_name_of_a_model_that_can_fill_in(post, engine):
    answer = post("/infill", LLAMA_VSCODE)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "model")
    assert post("/v1/models/no-such-model/infill", LLAMA_VSCODE).status_code == 404
    engine.infill_format = None
    answer = post(f"/v1/models/{MODEL}/infill", LLAMA_VSCODE)
    assert answer.status_code == 400
    assert "no fill-in-the-middle tokens: use another model" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("text", "n_indent", "expected"),
    [
        ("a\n  b\nc", 2, "a\n  b"),
        ("a\n\n  b", 2, "a\n\n  b"),
        ("a\n\tb\n c", 1, "a\n\tb\n c"),
        ("a\nb", 0, "a\nb"),
        ("a", 4, "a"),
        ("a\nb\n    c", 4, "a"),
    ],
)
def test_an_infill_ends_before_a_line_with_less_indentation(text, n_indent, expected):
    assert indented(text, n_indent) == expected


def test_continue_chats(post):
    chunks = events(post("/v1/chat/completions", CONTINUE_CHAT))
    assert "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"]) == RIGHT
    *before, last = [chunk["usage"] for chunk in chunks]
    assert (set(map(str, before)), last["completion_tokens"]) == ({"None"}, 4)


def test_continue_completes(post, engine):
    chunks = events(post("/v1/completions", CONTINUE_COMPLETE))
    assert "".join(choice["text"] for chunk in chunks for choice in chunk["choices"]) == RIGHT
    assert engine.requests[0].prompt == CONTINUE_COMPLETE["prompt"]
    assert engine.requests[0].stop == ("<PRE>", "\n\n", "```")


@pytest.mark.parametrize("stream", [False, True])
def test_a_suffix_is_infilled(post, engine, stream):
    asked = {"model": MODEL, "prompt": "def add(a, b):\n", "suffix": "\n", "stream": stream}
    answer = post("/v1/completions", asked)
    chunks = events(answer) if stream else [answer.json()]
    assert "".join(choice["text"] for chunk in chunks for choice in chunk["choices"]) == RIGHT
    assert engine.requests[0].prompt == "<PRE>def add(a, b):\n<SUF>\n<MID>"


def test_lm_eval_scores(post):
    choices = post("/v1/completions", LM_EVAL_SCORES).json()["choices"]
    assert [choice["index"] for choice in choices] == [0, 1]
    for choice, length in zip(choices, (3, 2), strict=True):
        given = choice["logprobs"]
        # It reads [context:-1] of each: whatever was drawn has one entry behind the prompt's.
        assert given["token_logprobs"][1:length] == [-0.5] * (length - 1)
        assert [max(top.values()) for top in given["top_logprobs"][1:length]] == [-0.05] * (length - 1)


def test_lm_eval_generates(post):
    (choice,) = post("/v1/completions", LM_EVAL_GENERATES).json()["choices"]
    assert choice["text"] == RIGHT
    (choice,) = post("/v1/chat/completions", LM_EVAL_CHAT).json()["choices"]
    assert choice["message"]["content"] == RIGHT
