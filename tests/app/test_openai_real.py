"""OpenAI's client on a real model. A file of its own: two embedded services in one process would share their broker."""

from __future__ import annotations

import pytest

from app import ports
from app.factory import create_app
from app.jobs.embedded import Embedded
from tests.app.openai_service import MODEL, client_of


@pytest.mark.model
def test_a_real_model_answers_on_time_with_what_it_has(ctx):
    ctx.load_engine = ports.load_engine
    with Embedded(ctx, "test"), client_of(create_app(ctx)) as client:
        ask = {"model": MODEL, "prompt": "def fibonacci(n):\n", "n": 4, "temperature": 0.7, "seed": 1}
        client.completions.create(**{**ask, "max_tokens": 2})  # the model is loaded, on nobody's clock
        cut = client.completions.create(**ask, max_tokens=4000, extra_body={"budget": 5.0})
        reasons = [c.bassline["finish_reason"] for c in cut.choices]
        assert "deadline" in reasons
        assert set(reasons) <= {"deadline", "stop"}  # a sample may end by itself, on another machine another one
        assert all(c.text for c in cut.choices)
        of_openai = {"deadline": "length", "stop": "stop"}
        assert [c.finish_reason for c in cut.choices] == [of_openai[reason] for reason in reasons]
        whole = client.completions.create(**ask, max_tokens=24, logprobs=0)
        assert [c.logprobs.tokens for c in whole.choices] != [[]] * 4
        assert all("".join(c.logprobs.tokens) == c.text for c in whole.choices)
        stopped = client.completions.create(**ask, max_tokens=64, stop=["\n"])
        assert all("\n" not in c.text for c in stopped.choices)
        again = client.completions.create(**ask, max_tokens=24)
        assert [c.text for c in again.choices] == [c.text for c in whole.choices]
