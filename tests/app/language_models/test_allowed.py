"""A caller who may submit names only the models that the operator allows, and learns nothing about files from a
refusal."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from app.accounts.service import create_token
from app.core.errors import BadInputError
from app.core.states import Scope
from app.language_models.service import is_allowed, require_model
from app.runs import service, transitions
from app.site.factory import create_app
from decoding.models import manifest

BODY = {"dataset": "additions", "n": 2, "budget_s": 5}
HIDDEN = ("/etc/passwd", "/etc/no-such-file", "~root/.bashrc", "hf:Qwen/Qwen3-0.6B", "../../etc/passwd", "x.gguf")


@pytest.fixture
def folder(tmp_path) -> Path:
    """A model's folder, as far as a look from outside goes."""
    folder = tmp_path / "models" / "mine"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return folder


@pytest.fixture
def guarded(ctx):
    return lambda allowed="": dataclasses.replace(
        ctx, settings=ctx.settings.model_copy(update={"require_tokens": True, "allowed_models": allowed})
    )


@pytest.fixture
def client_with(guarded, ctx):
    """A client with a token to submit, of a service that allows these models."""

    def make(allowed=""):
        client = create_app(guarded(allowed)).test_client()
        client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {create_token(ctx, 't', Scope.SUBMIT)}"
        return client

    return make


@pytest.mark.parametrize(
    ("reference", "patterns", "allowed"),
    [
        ("smollm2-135m", "registered", True),
        ("smollm2-135m", "hf:*", False),
        ("smollm2-135m", "qwen*", False),
        ("hf:Qwen/Qwen3-0.6B@refs/pr/1", "registered hf:Qwen/*", True),
        ("hf:Evil/Qwen3", "registered hf:Qwen/*", False),
        ("/models/mine", "/models/*", True),
        ("/models/../etc/passwd", "/models/*", False),
        ("/models/a/../../etc", "/models/*", False),
        ("/modelsandmore", "/models/*", False),
        ("hf:../../etc", "hf:*", False),
        ("~/models/mine", "~/models/*", True),
        (str(Path.home() / "models/mine"), "~/models/*", True),
        ("anything", "*", True),
    ],
)
def test_patterns_mean_references_and_never_the_way_out_of_a_folder(reference, patterns, allowed):
    assert is_allowed(reference, tuple(patterns.split())) is allowed


@pytest.mark.usefixtures("additions")
@pytest.mark.parametrize("field", ["target", "drafter"])
@pytest.mark.parametrize("reference", HIDDEN)
def test_with_tokens_only_known_models_may_be_named_and_the_refusal_names_the_setting(client_with, field, reference):
    client = client_with()
    models = {"target": "smollm2-135m", field: reference}
    for path, body in [("/api/v1/runs", BODY | models), ("/api/v1/complete", {"prompt": "x", **models})]:
        refused = client.post(path, json=body)
        assert refused.status_code == 422
        assert refused.json["errors"][0]["field"] == field
        assert "BASSLINE_ALLOWED_MODELS" in refused.json["detail"]
    assert client.post("/api/v1/runs", json=BODY | {"target": "smollm2-135m"}).status_code == 201


def test_openais_dialect_is_held_to_the_same_list(client_with):
    refused = client_with().post("/v1/completions", json={"model": "/etc/passwd", "prompt": "x"})
    assert (refused.status_code, refused.json["error"]["code"]) == (404, "model_not_found")
    assert "BASSLINE_ALLOWED_MODELS" in refused.json["error"]["message"]


@pytest.mark.parametrize("existing", ["~root/.bashrc", "/etc/passwd", "/"])
def test_whether_a_file_exists_is_told_to_nobody(client_with, existing):
    client = client_with()
    there, gone = (client.get(f"/v1/models/{name}") for name in (existing.lstrip("/") or "%2F", "no-such-file.gguf"))
    assert there.status_code == gone.status_code == 404
    body = {"target": existing, "prompt": "x"}
    missing = {"target": existing + "-not", "prompt": "x"}
    answers = [client.post("/api/v1/complete", json=b).json["detail"] for b in (body, missing)]
    assert answers[0].replace(repr(existing), "") == answers[1].replace(repr(existing + "-not"), "")


def test_no_file_is_looked_for_when_a_model_is_shown(ctx, monkeypatch, folder):
    monkeypatch.chdir(folder.parent)  # without tokens any folder may be named, but not be looked up
    client = create_app(ctx).test_client()
    assert client.get("/v1/models/mine").status_code == 404
    assert client.get("/v1/models/smollm2-135m").json["id"] == "smollm2-135m"


@pytest.mark.usefixtures("additions")
def test_what_lies_in_the_cache_may_be_named(client_with, tmp_path, monkeypatch):
    monkeypatch.setenv("BASSLINE_CACHE_DIR", str(tmp_path / "cache"))
    ref = "hf:owner/model"
    client = client_with()
    assert client.post("/api/v1/runs", json=BODY | {"target": ref}).status_code == 422
    record = tmp_path / "cache" / "models" / "hf-owner-model"
    record.mkdir(parents=True)
    info = manifest.ModelInfo(ref, "model", record, "0" * 64, "hub", None, "bfloat16", 1, {}, {})
    manifest.write(info, record)
    assert client.post("/api/v1/runs", json=BODY | {"target": ref}).status_code == 201
    assert client_with("registered").post("/api/v1/runs", json=BODY | {"target": ref}).status_code == 422


@pytest.mark.usefixtures("additions")
def test_the_operators_list_replaces_the_default_one(client_with, folder):
    client = client_with(f"qwen* {folder.parent}/*")
    assert client.post("/api/v1/runs", json=BODY | {"target": str(folder)}).status_code == 201
    assert client.post("/api/v1/runs", json=BODY | {"target": "smollm2-135m"}).status_code == 422
    listed = [m["id"] for m in client.get("/v1/models").json["data"]]
    assert listed
    assert all(name.startswith("qwen") for name in listed)


@pytest.mark.usefixtures("additions")
def test_without_tokens_this_machines_user_may_name_any_folder(ctx, folder):
    client = create_app(ctx).test_client()
    assert client.post("/api/v1/runs", json=BODY | {"target": str(folder)}).status_code == 201


def test_a_run_of_the_command_line_names_what_it_likes_and_is_not_resumed_from_outside(
    guarded, client_with, spec, folder
):
    ctx = guarded()
    run_id = service.submit(ctx, spec(target=str(folder)), pinned_worker=ctx.worker_name)
    transitions.interrupt(ctx, run_id)
    with pytest.raises(BadInputError, match="BASSLINE_ALLOWED_MODELS"):
        service.submit(ctx, spec(target=str(folder)))
    refused = client_with().post(f"/api/v1/runs/{run_id}/resume")
    assert (refused.status_code, refused.json["errors"][0]["field"]) == (422, "target")
    assert client_with("*").post(f"/api/v1/runs/{run_id}/resume").status_code == 202


def test_the_pages_form_says_so_beside_the_field(ctx, additions):
    closed = dataclasses.replace(ctx, settings=ctx.settings.model_copy(update={"allowed_models": "registered"}))
    client = create_app(closed).test_client()
    for path, values in [("/runs/new", {"dataset": additions}), ("/complete", {"prompt": "x"})]:
        page = client.get(path).get_data(as_text=True)
        word = re.search(r'name="csrf_token" value="([^"]+)"', page)[1]
        answer = client.post(path, data={"csrf_token": word, "target": "/etc/passwd", **values})
        assert answer.status_code == 422
        assert "BASSLINE_ALLOWED_MODELS" in answer.get_data(as_text=True)


def test_an_unknown_target_is_told_of_endpoints_and_an_unknown_drafter_is_not():
    for field, is_told in (("target", True), ("drafter", False)):
        with pytest.raises(BadInputError) as refused:
            require_model("gpt-9", field)
        assert ("or openai:MODEL@http://HOST/v1." in str(refused.value)) == is_told
