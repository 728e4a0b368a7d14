"""Models are deleted from the cache by the command, REST and the page: what Bassline placed there, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import func, select

from app.accounts.service import create_token
from app.cli.main import cli
from app.core.errors import ConflictError, NotFoundError
from app.core.states import RunState, Scope
from app.language_models.cached import delete_model
from app.runs.models import Run
from app.site.factory import create_app
from app.workers.models import Worker
from decoding.models import cache_folders, manifest, registry
from decoding.models.manifest import FileRecord, ModelInfo

HUB = "hf:org/Code.Model-1B"
OTHER = "hf:org/other"


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("BASSLINE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache_folders, "REMOVAL_WAIT_S", 0.0)
    return tmp_path / "cache"


def place_model(cache: Path, reference: str, folder: Path | None = None) -> Path:
    """Places a model of 1,000 bytes in the cache, or the record of a user's own folder. Returns the cache's folder."""
    place = cache / "models" / registry.resolve(reference).slug
    place.mkdir(parents=True)
    weights = (folder or place) / "model.safetensors"
    weights.write_bytes(b"w" * 1000)
    files = {weights.name: FileRecord(1000, weights.stat().st_mtime_ns, "a" * 64)}
    facts = {"sha256": "a" * 64, "source": "a test", "licence": None, "dtype": "float32", "n_parameters": 250}
    info = ModelInfo(ref=reference, name=reference, folder=folder or place, **facts, files=files, versions={})
    manifest.write(info, place)
    return place


def test_the_command_deletes_a_model_and_says_which_results_name_it(world, cache, monkeypatch):
    monkeypatch.setattr("app.cli.common.make_context", lambda: world.context)
    monkeypatch.setattr("app.cli.models.make_context", lambda: world.context)
    place, other = place_model(cache, HUB), place_model(cache, OTHER)
    world.add_run("one", target=HUB)
    world.add_study({"name": "a", "target": HUB}, {"name": "b", "drafter": f"sibling+{HUB}"})
    listed = json.loads(CliRunner().invoke(cli, ["models", "list", "--json", "-"]).stdout)
    assert {row["ref"]: row["cached_bytes"] for row in listed if row["cached_bytes"]} == {HUB: 1000, OTHER: 1000}
    done = CliRunner().invoke(cli, ["models", "delete", HUB])
    assert done.exit_code == 0, done.output
    assert f"deleted {HUB}" in done.stdout
    assert "3 runs and 1 study name it and keep their figures" in done.stdout
    assert (place.exists(), other.exists()) == (False, True)
    with world.context.database.read() as session:
        assert session.scalar(select(func.count()).select_from(Run)) == 3
    again = CliRunner().invoke(cli, ["models", "delete", HUB])
    assert (again.exit_code, "takes no space in the cache here" in again.stderr) == (2, True)


def test_the_page_and_rest_delete_for_an_admin_alone(ctx, cache):
    ctx.settings = ctx.settings.model_copy(update={"require_tokens": True})
    rest, page = place_model(cache, HUB), place_model(cache, OTHER)
    n_bytes = sum(file.stat().st_size for file in rest.iterdir())
    unfinished = cache / "partial" / page.name / "part"
    unfinished.parent.mkdir(parents=True)
    unfinished.write_bytes(b"p" * 500)
    app = create_app(ctx)
    app.config["WTF_CSRF_ENABLED"] = False
    client = app.test_client()
    bearer = {
        scope: {"Authorization": f"Bearer {create_token(ctx, scope, scope)}"} for scope in (Scope.SUBMIT, Scope.ADMIN)
    }
    for scope, statuses in ((Scope.SUBMIT, (403, 403)), (Scope.ADMIN, (200, 303))):
        headers = bearer[scope]
        assert (f"Delete {OTHER}" in client.get("/models", headers=headers).text) is (scope is Scope.ADMIN)
        answers = (
            client.delete(f"/api/v1/models/{HUB}", headers=headers),
            client.post(f"/models/{page.name}/delete", headers=headers),
        )
        assert tuple(answer.status_code for answer in answers) == statuses
    assert answers[0].json == {"ref": HUB, "bytes": n_bytes, "runs": 0, "studies": 0}
    assert not any(place.exists() for place in (rest, page, unfinished))


def test_a_model_that_is_needed_stays_and_the_page_says_why(world, cache):
    world.app.config["WTF_CSRF_ENABLED"] = False
    place = place_model(cache, HUB)
    for columns, reason in (
        ({"model": f"smollm2-135m, {HUB}"}, "in the memory of here:1"),
        ({"loading": HUB}, "in the memory of here:1"),
    ):
        with world.context.database.session() as session:
            session.add(Worker(name="here:1", host="here", pid=1, **columns))
        if "model" in columns:
            assert world.client.get("/models").text.count("in memory") == 1
        refused = world.client.post(f"/models/{place.name}/delete")
        assert refused.status_code == 409
        assert f"Nothing was deleted: {HUB} " in refused.text
        assert reason in refused.text
        with world.context.database.session() as session:
            session.delete(session.get_one(Worker, "here:1"))
    world.add_run("open", state=RunState.RUNNING, done=3, drafter=f"sibling+{HUB}")
    assert "is needed by 1 open run" in world.client.delete(f"/api/v1/models/{HUB}").json["detail"]
    assert place.exists()


def test_files_of_the_user_are_never_deleted(ctx, cache, tmp_path):
    own, gguf, linked = tmp_path / "own", tmp_path / "own.gguf", tmp_path / "linked"
    for folder in (own, linked):
        folder.mkdir()
        (folder / "config.json").write_text("{}")
    gguf.write_bytes(b"GGUF")
    place_model(cache, str(own), own)
    converted = place_model(cache, str(gguf))
    link = place_model(cache, HUB)
    link.rename(linked / "model")
    link.symlink_to(linked / "model")
    for reference in (str(own), "../own", "", str(linked)):
        with pytest.raises(NotFoundError, match="takes no space in the cache here"):
            delete_model(ctx, reference)
    with pytest.raises(ConflictError, match="cannot be removed"):
        delete_model(ctx, HUB)
    delete_model(ctx, str(gguf))
    assert not converted.exists()
    assert gguf.exists()
    assert sorted(path.name for path in own.iterdir()) == ["config.json", "model.safetensors"]
    assert (linked / "model" / "model.safetensors").exists()


def test_a_model_that_is_being_fetched_stays(ctx, cache):
    place = place_model(cache, HUB)
    with cache_folders.make_lock(cache, place.name), pytest.raises(ConflictError, match="another process works on"):
        delete_model(ctx, HUB)
    assert place.exists()
