"""The requests that public clients send, field by field as their sources make them."""

from __future__ import annotations

import json

import pytest

from tests.app.openai_service import MODEL
from tests.fakes import RIGHT

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
