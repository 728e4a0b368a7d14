"""`echo`, `logprobs` and prompts of token ids on /v1/completions: what harnesses score texts by."""

from __future__ import annotations

import openai
import pytest

from tests.app.openai_service import MODEL
from tests.fakes import RIGHT, TOP

PROMPT = "ab\n"
IDS = [97, 98, 10]  # the same, see FakeEngine
OF_PROMPT = [None, -0.5, -0.5]

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.parametrize("prompt", [PROMPT, IDS, [PROMPT], [IDS]])
def test_echo_begins_with_the_prompt_and_its_log_probabilities(client, prompt):
    (choice,) = client.completions.create(model=MODEL, prompt=prompt, echo=True, logprobs=1, max_tokens=4).choices
    assert choice.text == PROMPT + RIGHT
    given = choice.logprobs
    assert given.tokens == ["a", "b", "\n", "    ", "return", " a", " + b\n", ""]
    assert given.token_logprobs == [*OF_PROMPT, *[-0.1] * 4, -0.7], "the end-of-sequence token comes last"
    assert given.text_offset == [0, 1, 2, 3, 7, 13, 15, 20]
    assert given.top_logprobs[:2] == [None, {"    ": -0.05, "b": -0.5}]
    assert given.top_logprobs[3] == {"    ": -0.05}, "the top token and the chosen one are the same text"
    assert given.top_logprobs[4] == {"    ": -0.05, "return": -0.1}
    assert given.top_logprobs[-1] == {"": -0.7}


def test_each_prompt_of_several_is_scored(client, engine):
    answer = client.completions.create(model=MODEL, prompt=[IDS, [99]], echo=True, logprobs=0, max_tokens=1)
    assert [choice.text for choice in answer.choices] == [PROMPT + RIGHT, "c" + RIGHT]
    assert [choice.logprobs.token_logprobs[:1] for choice in answer.choices] == [[None], [None]]
    assert [choice.logprobs.top_logprobs for choice in answer.choices] == [None, None]
    assert [(asked.prompt, asked.prompt_logprobs) for asked in engine.requests] == [((97, 98, 10), 0), ((99,), 0)]


def test_echo_without_tokens_gives_the_prompt_alone(client):
    (choice,) = client.completions.create(model=MODEL, prompt=PROMPT, echo=True, logprobs=2, max_tokens=0).choices
    assert choice.text == PROMPT
    assert choice.logprobs.token_logprobs == OF_PROMPT
    assert choice.logprobs.top_logprobs[1] == dict([*TOP[:2], ("b", -0.5)])


def test_echo_without_logprobs_scores_nothing(client, engine):
    (choice,) = client.completions.create(model=MODEL, prompt=IDS, echo=True, max_tokens=4).choices
    assert (choice.text, choice.logprobs) == (PROMPT + RIGHT, None)
    assert engine.requests[-1].prompt_logprobs is None


def test_likeliest_tokens_are_named_beside_the_chosen_ones_without_echo(client, engine):
    (choice,) = client.completions.create(model=MODEL, prompt=PROMPT, logprobs=3, max_tokens=4).choices
    assert choice.logprobs.top_logprobs[1] == dict([*TOP, ("return", -0.1)])
    assert len(choice.logprobs.tokens) == 4, "the end-of-sequence token adds no text, so it has no entry here"
    assert engine.requests[-1].prompt_logprobs is None


def test_a_budget_that_ends_within_the_prompt_is_an_error_and_no_half_answer(client):
    with pytest.raises(openai.BadRequestError, match="before the whole prompt was scored") as refused:
        client.completions.create(model=MODEL, prompt=PROMPT, echo=True, logprobs=1, extra_body={"budget": 0.001})
    assert refused.value.param == "budget"


def test_an_id_that_is_no_token_is_refused(client):
    with pytest.raises(openai.BadRequestError, match="prompt holds the token id 300") as refused:
        client.completions.create(model=MODEL, prompt=[97, 300])
    assert refused.value.param == "prompt"


def test_a_prompt_of_ids_may_hold_characters_that_no_database_stores(client):
    (choice,) = client.completions.create(model=MODEL, prompt=[97, 0], echo=True, logprobs=0, max_tokens=1).choices
    assert choice.text.startswith("a\N{SYMBOL FOR NULL}")
    assert choice.logprobs.tokens[1].startswith("\N{SYMBOL FOR NULL}")
