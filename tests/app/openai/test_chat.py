"""POST /v1/chat/completions by OpenAI's own client."""

from __future__ import annotations

import inspect
import json
from functools import partial
from types import SimpleNamespace

import openai
import pytest
from transformers import PreTrainedTokenizerBase
from transformers.utils.chat_template_utils import render_jinja_template

from app.openai.schemas import RESERVED
from decoding.engine import Engine
from decoding.request import RequestError
from tests.app.openai.conftest import newest
from tests.app.openai_service import MODEL
from tests.decoding.conftest import byte_tokenizer
from tests.fakes import RIGHT, TOP, WRONG

ASK = {"model": MODEL, "messages": [{"role": "user", "content": "Write add."}]}

pytestmark = pytest.mark.usefixtures("engine")


def test_n_answers_with_usage(client):
    answer = client.chat.completions.create(**ASK, n=2)
    assert answer.object == "chat.completion"
    assert answer.id.startswith("chatcmpl-")
    said = [(c.index, c.message.role, c.message.content, c.finish_reason) for c in answer.choices]
    assert said == [(0, "assistant", RIGHT, "stop"), (1, "assistant", WRONG, "stop")]
    assert [c.logprobs for c in answer.choices] == [None, None]
    assert answer.usage.completion_tokens == 8
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 8
    details = answer.usage.completion_tokens_details
    assert (details.accepted_prediction_tokens, details.rejected_prediction_tokens) == (4, 8)


def test_the_chat_template_gets_the_conversation_and_the_engine_the_fields(client, engine, monkeypatch):
    rendered = []
    monkeypatch.setattr(engine, "render_chat", lambda messages, prefix: rendered.append((messages, prefix)) or "TEXT")
    client.chat.completions.create(
        model=MODEL, n=3, max_completion_tokens=7, temperature=0.5, top_p=0.9, seed=5, stop=["\n\n"],
        messages=[
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]},
            {"role": "assistant", "content": "Three.", "refusal": None, "tool_calls": []},
            {"role": "user", "content": ""},
        ],
        extra_body={"budget": 1.5},
    )  # fmt: skip
    assert rendered == [
        (
            [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "One.\nTwo."},
                {"role": "assistant", "content": "Three."},
                {"role": "user", "content": ""},
            ],
            "",
        )
    ]
    (request,) = engine.requests
    assert (request.prompt, request.n, request.max_new_tokens, request.seed) == ("TEXT", 3, 7, 5)
    assert (request.sampling.temperature, request.sampling.top_p) == (0.5, 0.9)
    assert (request.stop, request.budget_s) == (("\n\n",), 1.5)


@pytest.mark.parametrize(("given", "expected"), [({}, 2048), ({"max_tokens": 9}, 9)])
def test_an_answer_has_a_usual_length_and_the_older_field_for_it_counts(client, engine, given, expected):
    client.chat.completions.create(**ASK, **given)
    assert engine.requests[-1].max_new_tokens == expected


def test_a_stream_names_the_speaker_first_and_adds_up_to_the_answer(client):
    stream = client.chat.completions.create(**ASK, n=2, stream=True, stream_options={"include_usage": True})
    texts, reasons, roles, usage = ["", ""], [None, None], [None, None], None
    for chunk in stream:
        assert chunk.object == "chat.completion.chunk"
        usage = chunk.usage or usage
        for choice in chunk.choices:
            if roles[choice.index] is None:
                roles[choice.index] = choice.delta.role
                assert choice.delta.content == ""
            texts[choice.index] += choice.delta.content or ""
            reasons[choice.index] = choice.finish_reason or reasons[choice.index]
    assert (texts, reasons, roles) == ([RIGHT, WRONG], ["stop", "stop"], ["assistant"] * 2)
    assert usage.completion_tokens == 8
    assert usage.completion_tokens_details.accepted_prediction_tokens == 4


def test_logprobs_have_the_form_of_the_chat_endpoint(client):
    (choice,) = client.chat.completions.create(**ASK, logprobs=True, top_logprobs=2).choices
    tokens = choice.logprobs.content
    assert [token.token for token in tokens] == ["    ", "return", " a", " + b\n"]
    assert [token.logprob for token in tokens] == [-0.1] * 4
    assert bytes(tokens[1].bytes) == b"return"
    assert [(top.token, top.logprob) for top in tokens[0].top_logprobs] == list(TOP[:2])
    (choice,) = client.chat.completions.create(**ASK, logprobs=True).choices
    assert [token.top_logprobs for token in choice.logprobs.content] == [[]] * 4


def test_the_run_shows_the_conversation(served, client):
    client.chat.completions.create(**ASK)
    page = client._client.get(str(client.base_url).removesuffix("v1/") + f"complete/{newest(served[0]).id}").text
    assert "user: Write add." in page


def test_a_model_without_a_chat_template_says_where_to_go(client, engine):
    engine.has_chat_template = False
    with pytest.raises(openai.BadRequestError, match=f"{MODEL} has no chat template: send a prompt to /v1/completions"):
        client.chat.completions.create(**ASK)


def test_what_a_template_refuses_is_the_clients_fault(client, engine, monkeypatch):
    def refuse(*_):
        raise RequestError("messages do not fit the chat template of it: roles must alternate")

    monkeypatch.setattr(engine, "render_chat", refuse)
    with pytest.raises(openai.BadRequestError, match="roles must alternate") as refused:
        client.chat.completions.create(**ASK)
    assert refused.value.param == "messages"


THINKING = (
    "{% for m in messages %}{{ m.content }}{% endfor %}"
    "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
    "{% for part in parts or [] %}{{ part.name }}{% endfor %}{{ limit + 1 if limit is defined else '' }}"
)


@pytest.fixture
def template(engine, monkeypatch):
    """The engine's own rendering, with a template that reads values beside the messages."""
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = THINKING
    target = SimpleNamespace(tokenizer=tokenizer, name="tiny")
    monkeypatch.setattr(engine, "render_chat", partial(Engine.render_chat, SimpleNamespace(target=target)))


@pytest.mark.usefixtures("template")
def test_the_chat_template_reads_its_own_values(client, engine, served):
    for values, prompt in (
        ({}, "Write add."),
        ({"enable_thinking": True}, "Write add."),
        ({"enable_thinking": False}, "Write add.<think></think>"),
        ({"parts": [{"name": "é"}, {"name": "\x00"}], "unknown": None}, "Write add.é\x00"),
    ):
        client.chat.completions.create(**ASK, extra_body={"chat_template_kwargs": values})
        assert engine.requests[-1].prompt == prompt
        stored = newest(served[0]).provenance.get("chat_template_kwargs")
        assert (json.loads(stored) if stored else {}) == values
    stream = client.chat.completions.create(
        **ASK, stream=True, extra_body={"chat_template_kwargs": {"enable_thinking": False}}
    )
    assert len(list(stream)) > 1
    assert engine.requests[-1].prompt == "Write add.<think></think>"


@pytest.mark.usefixtures("template")
@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"messages": []}, "messages, which is set here"),
        ({"tools": []}, "tools, which is set here"),
        ({"add_generation_prompt": False}, "add_generation_prompt, which is set here"),
        ({"tokenize": True}, "tokenize, which is set here"),
        ({"bos_token": ""}, "bos_token, which is set here"),
        ({"a b": 1}, "'a b'"),
        ({"x": "x" * 10_000}, "at most 10000"),
        ({"limit": "x"}, "do not fit the chat template"),
        ([], "chat_template_kwargs"),
        ("{}", "chat_template_kwargs"),
        (1, "chat_template_kwargs"),
    ],
)
def test_values_that_a_template_cannot_have_are_refused_in_one_sentence(client, values, word):
    with pytest.raises(openai.BadRequestError, match=word) as refused:
        client.chat.completions.create(**ASK, extra_body={"chat_template_kwargs": values})
    assert refused.value.param == "chat_template_kwargs"


def test_every_option_of_rendering_is_reserved():
    named = [
        name
        for function in (PreTrainedTokenizerBase.apply_chat_template, render_jinja_template)
        for name, one in inspect.signature(function).parameters.items()
        if one.kind is not one.VAR_KEYWORD
    ]
    assert len(named) > 10
    assert {*named} <= RESERVED


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages"),
        ({"messages": [{"role": "user", "content": "x", "name": "ada"}]}, "messages"),
        ({"messages": [{"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "messages"),
        ({"messages": [{"role": "user", "content": "x" * 200_001}]}, "messages"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"tool_choice": "auto"}, "tool_choice"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"reasoning_effort": "high"}, "reasoning_effort"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"extra_body": {"echo": True}}, "echo"),
        ({"extra_body": {"prompt": "x"}}, "prompt"),
        ({"extra_body": {"top_k": 40}}, "top_k"),
    ],
)
def test_what_is_not_offered_is_refused_by_name(client, asked, param):
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**{**ASK, **asked})
    assert refused.value.param == param
    assert len(refused.value.body["message"]) > 20


def test_what_asks_for_nothing_is_taken(client):
    answer = client.chat.completions.create(
        **ASK, tools=[], tool_choice="none", functions=[], function_call="none", parallel_tool_calls=False,
        frequency_penalty=0, presence_penalty=0, logit_bias={}, response_format={"type": "text"}, user="ada",
        modalities=["text"], prediction={"type": "content", "content": "x"}, metadata={}, store=False,
        extra_body={"top_k": -1, "chat_template_kwargs": {}, "add_generation_prompt": True},
    )  # fmt: skip
    assert answer.choices[0].message.content == RIGHT
