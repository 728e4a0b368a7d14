"""OpenAI's own client works against /v1: choices, streams, stops, budgets, errors."""

from __future__ import annotations

import contextlib
import threading

import openai
import pytest
from sqlalchemy.exc import OperationalError

from app.completions import waiting
from app.core.states import RunState
from app.openai import service
from app.site.factory import create_app
from decoding.request import RequestError
from tests.app.openai.conftest import completions, newest
from tests.app.openai_service import MODEL, client_of
from tests.fakes import RIGHT, WRONG, FakeEngine
from tests.integration.waiting import wait_for

PROMPT = "def add(a, b):\n"


@pytest.fixture
def engine(served) -> FakeEngine:
    """The fake, as if new, of a base model: no chat template, no markers."""
    found = served[0].load_engine(None, None)
    found.__init__()
    return found


def test_n_choices_of_each_prompt_with_usage(client):
    answer = client.completions.create(model=MODEL, prompt=[PROMPT, PROMPT * 2], n=2, max_tokens=8)
    assert [(c.index, c.text, c.finish_reason) for c in answer.choices] == [
        (0, RIGHT, "stop"),
        (1, WRONG, "stop"),
        (2, RIGHT, "stop"),
        (3, WRONG, "stop"),
    ]
    assert answer.usage.completion_tokens == 16
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 16
    assert answer.usage.prompt_tokens_details.cached_tokens == 10, "5 of each prompt, see FakeEngine"
    details = answer.usage.completion_tokens_details
    assert (details.accepted_prediction_tokens, details.rejected_prediction_tokens) == (8, 16), "2 of 6 in each sample"
    assert details.drafted_tokens == 24
    assert answer.choices[0].bassline["finished_s"] == pytest.approx(0.1)


def test_a_client_may_choose_the_drafter(client, served):
    client.completions.create(model=MODEL, prompt=PROMPT, max_tokens=7, extra_body={"drafter": "none"})
    assert newest(served[0]).drafter == "none"
    with pytest.raises(openai.BadRequestError, match="drafter"):
        client.completions.create(model=MODEL, prompt=PROMPT, max_tokens=7, extra_body={"drafter": "guess:"})


def test_the_engine_is_asked_for_what_the_client_said(client, engine):
    client.completions.create(
        model=MODEL, prompt=PROMPT, n=3, max_tokens=7, temperature=0.5, top_p=0.9, seed=5, stop=["\n\n"],
        extra_body={"budget": 1.5},
    )  # fmt: skip
    (request,) = engine.requests
    assert (request.prompt, request.n, request.max_new_tokens, request.seed) == (PROMPT, 3, 7, 5)
    assert (request.sampling.temperature, request.sampling.top_p) == (0.5, 0.9)
    assert (request.stop, request.budget_s) == (("\n\n",), 1.5)


def test_logprobs_are_those_of_the_chosen_tokens(client):
    (choice,) = client.completions.create(model=MODEL, prompt=PROMPT, logprobs=0).choices
    assert choice.logprobs.top_logprobs is None
    assert choice.logprobs.tokens == ["    ", "return", " a", " + b\n"]
    assert choice.logprobs.token_logprobs == [-0.1] * 4
    assert choice.logprobs.text_offset == [0, 4, 10, 12]


def test_a_stream_adds_up_to_the_answer(client):
    stream = client.completions.create(
        model=MODEL, prompt=PROMPT, n=2, stream=True, stream_options={"include_usage": True}
    )
    texts, reasons, usage = ["", ""], [None, None], None
    for chunk in stream:
        assert "usage" in chunk.model_fields_set, "null in all chunks but the last, as OpenAI's reference says"
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            reasons[choice.index] = choice.finish_reason or reasons[choice.index]
    assert (texts, reasons) == ([RIGHT, WRONG], ["stop", "stop"])
    assert usage.completion_tokens == 8


def test_without_a_wish_for_usage_no_chunk_mentions_it(client):
    stream = client.completions.create(model=MODEL, prompt=PROMPT, stream=True)
    assert not any("usage" in chunk.model_fields_set for chunk in stream)


def test_a_database_that_fails_within_a_stream_is_said_in_the_stream(client, monkeypatch):
    def away(*_):
        raise OperationalError("SELECT", {}, Exception("server closed the connection"))

    monkeypatch.setattr(service, "_load_ended", away)
    with pytest.raises(openai.APIError, match="the database is unavailable") as failed:
        list(client.completions.create(model=MODEL, prompt=PROMPT, stream=True))
    assert failed.value.code == "unavailable"


def test_a_client_that_leaves_its_stream_cancels_the_work(served, client, engine, monkeypatch):
    monkeypatch.setattr(waiting, "BEAT_S", 0.05)
    engine.hold = threading.Event()
    stream = client.completions.create(model=MODEL, prompt=PROMPT, stream=True)
    assert engine.started.wait(60)
    stream.close()
    wait_for(lambda: newest(served[0]).state is RunState.CANCELLED)


def test_a_prompt_that_nobody_takes_up_is_refused_and_forgotten(ctx, monkeypatch):
    monkeypatch.setattr(waiting, "BEAT_S", 0.01)
    monkeypatch.setattr(service, "CLAIM_TIMEOUT_S", 0.1)
    with client_of(create_app(ctx)) as client:
        with pytest.raises(openai.InternalServerError) as refused:
            client.completions.create(model=MODEL, prompt=PROMPT)
        assert refused.value.status_code == 503
        assert refused.value.response.headers["Retry-After"]
    assert newest(ctx).state is RunState.CANCELLED


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_too_many_is_refused_before_a_run_is_made(served, client, stream):
    ctx, before = served[0], [run.id for run in completions(served[0])]
    with contextlib.ExitStack() as slots:
        for _ in range(ctx.settings.max_streams):
            assert ctx.completion_slots.acquire(timeout=10)
            slots.callback(ctx.completion_slots.release)
        with pytest.raises(openai.InternalServerError, match="too many"):
            client.completions.create(model=MODEL, prompt=PROMPT, stream=stream)
    assert [run.id for run in completions(ctx)] == before


@pytest.mark.parametrize(
    ("fault", "expected", "status"),
    [
        (RuntimeError("max_tokens"), openai.InternalServerError, 500),
        (RequestError("decoding failed: is in the words of a wrong request"), openai.BadRequestError, 400),
    ],
)
def test_the_status_says_whose_fault_it_is_whatever_the_words(client, engine, monkeypatch, fault, expected, status):
    def broken(*_):
        raise fault

    monkeypatch.setattr(engine, "generate", broken)
    with pytest.raises(expected, match=str(fault)) as refused:
        client.completions.create(model=MODEL, prompt=PROMPT)
    assert refused.value.status_code == status


def test_models_are_listed_and_shown(client):
    assert MODEL in [m.id for m in client.models.list()]
    assert client.models.retrieve(MODEL).id == MODEL


@pytest.mark.parametrize(
    ("asked", "kind", "param"),
    [
        ({"model": "no-such-model"}, openai.NotFoundError, "model"),
        ({"n": 0}, openai.BadRequestError, "n"),
        ({"n": "2"}, openai.BadRequestError, "n"),
        ({"n": True}, openai.BadRequestError, "n"),
        ({"n": 2.0}, openai.BadRequestError, "n"),
        ({"logprobs": True}, openai.BadRequestError, "logprobs"),
        ({"temperature": True}, openai.BadRequestError, "temperature"),
        ({"extra_body": {"stream": 1}}, openai.BadRequestError, "stream"),
        ({"extra_body": {"stream_options": {"include_usage": "yes"}}}, openai.BadRequestError, "stream_options"),
        ({"extra_body": {"echo": 1}}, openai.BadRequestError, "echo"),
        ({"prompt": []}, openai.BadRequestError, "prompt"),
        ({"prompt": [[1, 2], []]}, openai.BadRequestError, "prompt"),
        ({"prompt": [1, -2]}, openai.BadRequestError, "prompt"),
        ({"prompt": [1, True]}, openai.BadRequestError, "prompt"),
        ({"prompt": [1, 100_000]}, openai.BadRequestError, "prompt"),  # no token of the model
        ({"prompt": [1], "suffix": "x"}, openai.BadRequestError, "prompt"),
        ({"max_tokens": 0}, openai.BadRequestError, "max_tokens"),
        ({"echo": True, "suffix": "x"}, openai.BadRequestError, "echo"),
        ({"echo": True, "stream": True}, openai.BadRequestError, "echo"),
        ({"suffix": "x"}, openai.BadRequestError, None),  # a model without infilling tokens
        ({"extra_body": {"budget": -1}}, openai.BadRequestError, "budget"),
        ({"prompt": "x" * 5000}, openai.BadRequestError, "prompt"),  # longer than the model can look at
    ],
)
def test_errors_have_openais_shape_and_say_what_to_do(client, asked, kind, param):
    with pytest.raises(kind) as refused:
        client.completions.create(**{"model": MODEL, "prompt": PROMPT, **asked})
    assert refused.value.param == param
    assert refused.value.type == "invalid_request_error"
    assert len(refused.value.body["message"]) > 20


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("top_k", 40),
        ("min_p", 0.05),
        ("repetition_penalty", 1.1),
        ("frequency_penalty", -0.5),
        ("logit_bias", {"50256": -100}),
        ("best_of", 5),
        ("detokenize", False),  # in an unknown field, 0 or false may ask for something
        ("budgets", 0),
        ("ignore_eos", True),
        ("stop_token_ids", [2]),
        ("skip_special_tokens", False),
        ("prompt_logprobs", 1),
        ("structured_outputs", {"regex": "a+"}),
        ("response_format", {"type": "json_object"}),
        ("max_completion_tokens", 5),
        ("a_parameter_of_tomorrow", 1),
        ("stream_options", {"continuous_usage_stats": True}),
    ],
)
def test_what_would_change_the_text_and_is_not_honoured_is_refused_by_name(client, name, value):
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model=MODEL, prompt=PROMPT, extra_body={name: value})
    assert refused.value.param == name
    assert name in refused.value.body["message"]


def test_what_asks_for_nothing_or_changes_no_text_is_taken(client):
    answer = client.completions.create(
        model=MODEL, prompt=PROMPT, n=2, best_of=2, echo=False, frequency_penalty=0.0, presence_penalty=0, user="ada",
        logit_bias={}, extra_body={
            "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "length_penalty": 1.0, "use_beam_search": False,
            "min_tokens": 0, "ignore_eos": False, "stop_token_ids": [], "skip_special_tokens": True, "bad_words": [],
            "spaces_between_special_tokens": True, "add_special_tokens": True, "response_format": {"type": "text"},
            "guided_json": None, "truncate_prompt_tokens": None, "priority": 3, "metadata": {"a": "b"},
        },
    )  # fmt: skip
    assert [choice.text for choice in answer.choices] == [RIGHT, WRONG]


def test_a_request_without_a_budget_takes_the_services_usual_one(client, engine):
    client.completions.create(model=MODEL, prompt=PROMPT)
    client.completions.create(model=MODEL, prompt=PROMPT, extra_body={"budget": 600})
    assert [request.budget_s for request in engine.requests] == [60.0, 600.0]


def test_what_is_not_offered_says_so(client):
    with pytest.raises(
        openai.NotFoundError, match="use /v1/chat/completions, /v1/completions or /v1/models"
    ) as refused:
        client.embeddings.create(model=MODEL, input="hi")
    assert (refused.value.code, refused.value.param) == ("unknown_url", None)


def test_only_a_model_that_is_not_here_is_a_model_not_found(client):
    for ask in (
        lambda: client.models.retrieve("no-such-model"),
        lambda: client.completions.create(model="no-such-model", prompt=PROMPT),
    ):
        with pytest.raises(openai.NotFoundError) as refused:
            ask()
        assert (refused.value.code, refused.value.param) == ("model_not_found", "model")
