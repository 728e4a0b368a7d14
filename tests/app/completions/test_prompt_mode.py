"""An instruct model is asked through its chat template, a base model with the bytes of the prompt, as asked."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from app.cli import cli
from app.factory import create_app
from app.jobs.embedded import Embedded
from evaluation.prompting import INSTRUCTION, REPLY_PREFIX
from tests.fakes import FENCE

PROMPT = "def add(a, b):\n"
BODY = {"target": "smollm2-135m", "prompt": PROMPT, "n": 2}


@pytest.mark.parametrize(
    ("template", "asked", "used"),
    [
        (True, {}, "completion"),  # as it was: sent byte for byte
        (True, {"prompt_mode": "completion"}, "completion"),
        (True, {"prompt_mode": "chat"}, "chat"),
        (True, {"prompt_mode": "auto"}, "chat"),
        (False, {"prompt_mode": "auto"}, "completion"),
    ],
)
def test_the_mode_asked_for_is_how_the_model_is_asked(ctx, engine, template, asked, used):
    engine.has_chat_template = template
    with Embedded(ctx, "test"):
        answer = create_app(ctx).test_client().post("/api/v1/complete", json=BODY | asked)
    assert answer.status_code == 200
    assert answer.json["run"]["prompt_mode_used"] == used
    (request,) = engine.requests
    if used == "completion":
        assert request.prompt == PROMPT
    else:
        assert request.prompt.startswith(INSTRUCTION)
        assert request.prompt.endswith(REPLY_PREFIX)
        assert FENCE in request.stop


def test_a_model_without_a_template_is_not_asked_in_its_own_words(ctx, engine):
    with Embedded(ctx, "test"):
        answer = create_app(ctx).test_client().post("/api/v1/complete", json=BODY | {"prompt_mode": "chat"})
    assert answer.json["run"]["state"] == "failed"
    assert "no chat template" in answer.json["run"]["error"]
    assert engine.requests == []


def test_an_unknown_mode_is_refused_by_name(ctx):
    answer = create_app(ctx).test_client().post("/api/v1/complete", json=BODY | {"prompt_mode": "talk"})
    assert (answer.status_code, answer.json["errors"][0]["field"]) == (422, "prompt_mode")


def test_the_command_line_offers_the_same(ctx, engine, monkeypatch, tmp_path):
    monkeypatch.setattr("app.commands.common.make_context", lambda: ctx)
    engine.has_chat_template = True
    file = tmp_path / "prompt.py"
    file.write_text(PROMPT)
    words = ["complete", str(file), "--target", "smollm2-135m", "--n", "1", "--prompt-mode", "chat", "--json", "-"]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["run"]["prompt_mode_used"] == "chat"
    assert engine.requests[0].prompt.startswith(INSTRUCTION)
