"""An instruct model is asked through its chat template, a base model with the bytes of the prompt, as asked."""

from __future__ import annotations

import json

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

from app.cli.main import cli
from app.completions import service
from app.completions.schemas import CompletionSpec
from app.core.errors import BadInputError
from app.jobs.embedded import EmbeddedWorkers
from app.jobs.work.decode_job import prepare_engine
from app.runs.repository import get_run
from app.site.factory import create_app
from decoding.models import fetch
from evaluation.prompting import INSTRUCTION, REPLY_PREFIX, PromptError
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
    with EmbeddedWorkers(ctx, "test"):
        answer = create_app(ctx).test_client().post("/api/v1/complete", json=BODY | asked)
    assert answer.status_code == 200
    assert answer.json["run"]["prompt_mode_used"] == used
    (request,) = engine.requests
    if used == "completion":
        assert request.prompt == PROMPT
    else:
        assert request.prompt.startswith(INSTRUCTION.format("Python"))
        assert request.prompt.endswith(REPLY_PREFIX.format("python"))
        assert FENCE in request.stop


def test_a_model_without_a_template_is_not_asked_in_its_own_words(ctx, engine):
    with EmbeddedWorkers(ctx, "test"):
        answer = create_app(ctx).test_client().post("/api/v1/complete", json=BODY | {"prompt_mode": "chat"})
    assert answer.json["run"]["state"] == "failed"
    assert "no chat template" in answer.json["run"]["error"]
    assert engine.requests == []


def test_the_command_line_offers_the_same(ctx, engine, monkeypatch, tmp_path):
    monkeypatch.setattr("app.cli.common.make_context", lambda: ctx)
    engine.has_chat_template = True
    file = tmp_path / "prompt.py"
    file.write_text(PROMPT)
    words = ["complete", str(file), "--target", "smollm2-135m", "--n", "1", "--prompt-mode", "chat", "--json", "-"]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["run"]["prompt_mode_used"] == "chat"
    assert engine.requests[0].prompt.startswith(INSTRUCTION.format("Python"))


@pytest.fixture
def without_infilling(tmp_path, monkeypatch):
    """The reference of a model in a folder, whose tokenizer has no markers; nothing of it can be loaded."""
    monkeypatch.setenv("BASSLINE_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "tokenizer.json").write_text("{}")
    (folder / "config.json").write_text("{}")
    save_file({"x": torch.zeros(1)}, folder / "model.safetensors")
    fetch.ensure(str(folder))
    return str(folder)


@pytest.mark.parametrize("mode", ["infill", "auto"])
def test_a_model_that_cannot_infill_is_refused_before_it_is_loaded(ctx, engine, without_infilling, mode):
    spec = CompletionSpec(target=without_infilling, prompt=PROMPT, suffix="\n", prompt_mode=mode)
    with pytest.raises(BadInputError, match="no fill-in-the-middle tokens: use another model"):
        service.submit(ctx, spec, pinned_worker="here")
    assert engine.requests == []


def test_a_worker_whose_cache_knows_better_refuses_before_it_loads(ctx, engine, without_infilling, monkeypatch):
    spec = CompletionSpec(target=without_infilling, prompt=PROMPT, suffix="\n", prompt_mode="infill")
    with monkeypatch.context() as patch:  # a web process without a cache
        patch.setattr("app.runs.service.require_infilling", lambda target: None)
        run_id = service.submit(ctx, spec, handover=True)
    with ctx.database.read() as session, pytest.raises(PromptError, match="no fill-in-the-middle tokens"):
        prepare_engine(ctx, get_run(session, run_id))
    assert not ctx.engines.list_configs()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"suffix": "x"}, "suffix"),
        ({"prompt_mode": "infill"}, "suffix"),
        ({"suffix": "x", "prompt_mode": "chat"}, "suffix"),
    ],
)
def test_a_suffix_and_a_mode_that_do_not_go_together_are_refused_by_name(ctx, monkeypatch, tmp_path, changes, field):
    monkeypatch.setenv("BASSLINE_CACHE_DIR", str(tmp_path))
    answer = create_app(ctx).test_client().post("/api/v1/complete", json=BODY | changes)
    assert (answer.status_code, answer.json["errors"][0]["field"]) == (422, field)
