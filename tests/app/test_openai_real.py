"""OpenAI's client on a real model. A file of its own: two embedded services in one process would share their broker."""

from __future__ import annotations

import openai
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from app.core import ports
from decoding.models.fetch import ensure
from tests.app.openai_service import MODEL, served_service

pytestmark = [pytest.mark.model, pytest.mark.slow]

TEXT = 'def add(a, b):\n    """Return the sum of a and b, e.g. add(1, 2) == 3 – é."""\n    return a + b\n' * 3


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A client of a service that loads the model once."""
    with served_service(tmp_path_factory.mktemp("real")) as (ctx, found):
        ctx.load_engine = ports.load_engine
        yield found


@pytest.mark.thorough
def test_a_real_model_answers_on_time_with_what_it_has(client):
    ask = {"model": MODEL, "prompt": "def fibonacci(n):\n", "n": 4, "temperature": 0.7, "seed": 1}
    client.completions.create(**{**ask, "max_tokens": 2})  # the model is loaded, on nobody's clock
    cut = client.completions.create(**ask, max_tokens=4000, extra_body={"budget": 5.0})
    reasons = [c.bassline["finish_reason"] for c in cut.choices]
    assert "deadline" in reasons
    assert set(reasons) <= {"deadline", "stop"}  # a sample may end by itself, on another machine another one
    assert all(c.text for c, reason in zip(cut.choices, reasons, strict=True) if reason == "deadline")
    of_openai = {"deadline": "length", "stop": "stop"}
    assert [c.finish_reason for c in cut.choices] == [of_openai[reason] for reason in reasons]
    whole = client.completions.create(**ask, max_tokens=24, logprobs=0)
    assert [c.logprobs.tokens for c in whole.choices] != [[]] * 4
    assert all("".join(c.logprobs.tokens) == c.text for c in whole.choices)
    stopped = client.completions.create(**ask, max_tokens=64, stop=["\n"])
    assert all("\n" not in c.text for c in stopped.choices)
    again = client.completions.create(**ask, max_tokens=24)
    assert [c.text for c in again.choices] == [c.text for c in whole.choices]


@pytest.mark.thorough
def test_a_text_scores_what_transformers_computes_of_the_same_tokens(client):
    folder = ensure(MODEL).folder
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    ids = tokenizer(TEXT)["input_ids"]
    with torch.inference_mode():
        expected = model(torch.tensor([ids])).logits[0, :-1].float().log_softmax(dim=1)
    own = expected.gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
    ask = {"model": MODEL, "echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}
    for prompt in (TEXT, ids):
        (choice,) = client.completions.create(prompt=prompt, **ask).choices
        given = choice.logprobs
        assert choice.text.startswith(TEXT)
        assert "".join(given.tokens[: len(ids)]) == TEXT
        assert len(given.tokens) == len(ids) + 1
        scored = torch.tensor(given.token_logprobs[1:-1])
        # Both compute in bfloat16, in another order.
        assert (scored - own).abs().max() < 0.5
        assert (scored - own).abs().mean() < 0.05
        most_likely = torch.tensor([max(top.values()) for top in given.top_logprobs[1:-1]])
        assert (most_likely - expected.amax(dim=1)).abs().mean() < 0.05
        is_greedy = scored == most_likely
        clear = expected.topk(2).values.diff(dim=1)[:, 0].abs() > 0.5
        assert torch.equal(is_greedy[clear], (torch.tensor(ids[1:]) == expected.argmax(dim=1))[clear])
    with pytest.raises(openai.BadRequestError, match="prompt holds the token id 49152, and smollm2-135m has"):
        client.completions.create(prompt=[1, 49152], model=MODEL)


@pytest.mark.thorough
def test_a_real_model_converses_and_says_that_it_cannot_fill_in(client):
    ask = {"model": MODEL, "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 12, "seed": 1}
    whole = client.chat.completions.create(**ask, logprobs=True, top_logprobs=2)
    (choice,) = whole.choices
    assert choice.message.content
    assert "".join(token.token for token in choice.logprobs.content) == choice.message.content
    for token in choice.logprobs.content:
        best, second = token.top_logprobs
        assert token.logprob <= best.logprob
        assert best.logprob >= second.logprob
    streamed = client.chat.completions.create(**ask, stream=True)
    pieces = [c.delta.content or "" for chunk in streamed for c in chunk.choices]
    assert "".join(pieces) == choice.message.content
    details = whole.usage.completion_tokens_details
    drafted = details.accepted_prediction_tokens + details.rejected_prediction_tokens
    assert drafted == details.drafted_tokens
    with pytest.raises(openai.BadRequestError, match="no fill-in-the-middle tokens"):
        client.completions.create(model=MODEL, prompt="def f(", suffix="\n")
