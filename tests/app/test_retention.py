"""What is deleted is gone from every table and stream; completions, answers and sessions end in their time."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid

import pytest
from sqlalchemy import select

from app.background.models import BackgroundJob
from app.completions import service as completions
from app.completions.schemas import CompletionSpec
from app.core.db.types import get_utc_time
from app.core.errors import NotFoundError
from app.core.events.bus import BEFORE_FIRST
from app.domains import metadata
from app.jobs import reaper, retention
from app.jobs.embedded import EmbeddedWorkers
from app.runs import hidden_runs, transitions
from app.runs import service as runs
from app.runs.models import Run
from app.runs.repository import get_run, list_runs
from app.site.factory import create_app
from tests.fakes import RIGHT
from tests.integration.waiting import wait_for

SECRET = "def the_secret_function(a, b):\n"
OURS = ("/api/v1/complete", {"target": "smollm2-135m", "prompt": SECRET, "n": 2, "test": "assert 1"})
OPENAIS = ("/v1/completions", {"model": "smollm2-135m", "prompt": SECRET, "n": 2})


def everything(ctx) -> str:
    """All that the database holds, as text."""
    with ctx.database.read() as session:
        return str([session.execute(select(table)).all() for table in metadata.sorted_tables])


def stored_completions(ctx) -> list[uuid.UUID]:
    with ctx.database.read() as session:
        return list(session.scalars(select(Run.id).order_by(Run.id)))


@pytest.fixture
def client(ctx):
    return create_app(ctx).test_client()


@pytest.mark.parametrize(("path", "body"), [OURS, OPENAIS], ids=["ours", "openais"])
def test_nothing_is_left_of_a_completion_that_is_deleted(ctx, client, path, body):
    with EmbeddedWorkers(ctx, "test"):
        assert client.post(path, json=body).status_code == 200
        assert SECRET.split("(", maxsplit=1)[0] in everything(ctx)
        assert RIGHT.strip() in everything(ctx)
        (run_id,) = stored_completions(ctx)
        assert client.delete(f"/api/v1/runs/{run_id}").status_code == 204
    left = everything(ctx)
    assert "the_secret" not in left
    assert RIGHT.strip() not in left
    assert ctx.bus.read(run_id, BEFORE_FIRST, 0) == []


def test_a_prompt_that_two_completions_have_goes_with_the_second(ctx, client):
    spec = CompletionSpec(**OURS[1])
    ids = [completions.submit(ctx, spec) for _ in range(2)]
    for run_id, left in zip(ids, (True, False), strict=True):
        transitions.cancel(ctx, run_id)
        transitions.close_if_done(ctx, run_id)
        hidden_runs.delete_run(ctx, run_id)
        assert ("the_secret" in everything(ctx)) is left


def test_a_run_that_is_being_deleted_is_hidden_and_says_why(ctx, spec):
    run_id = runs.submit(ctx, spec())
    transitions.cancel(ctx, run_id)
    with ctx.database.session() as session:
        job_id = hidden_runs.hide_runs(ctx, session, [get_run(session, run_id)])
    with ctx.database.read() as session:
        assert session.get_one(BackgroundJob, job_id).subject == f"1 run: {run_id}"
        assert (list_runs(session), get_run(session, run_id, hidden=True).error) == ([], "it is being deleted")
        with pytest.raises(NotFoundError):
            get_run(session, run_id)
    hidden_runs.finish_deletion(ctx, job_id)
    assert stored_completions(ctx) == []


def test_old_completions_are_swept_and_others_stay(ctx, client, spec):
    configured = dataclasses.replace(ctx, settings=ctx.settings.model_copy(update={"completion_days": 2.0}))
    old, new, open_ = (completions.submit(ctx, CompletionSpec(**OURS[1])) for _ in range(3))
    run = runs.submit(ctx, spec())
    for run_id in (old, new, run):
        transitions.cancel(ctx, run_id)
    with ctx.database.session() as session:
        for run_id in (old, open_, run):
            row = session.get_one(Run, run_id)
            row.created_at = get_utc_time() - dt.timedelta(days=3)
            row.finished_at = row.finished_at and row.created_at
    retention.delete_expired(
        dataclasses.replace(ctx, settings=ctx.settings.model_copy(update={"completion_days": 0.0}))
    )
    assert len(stored_completions(ctx)) == 4
    retention.delete_expired(configured)
    assert stored_completions(ctx) == [new, open_, run]


def test_the_embedded_form_sweeps(ctx, monkeypatch):
    swept = []
    monkeypatch.setattr(retention, "delete_expired", swept.append)
    with EmbeddedWorkers(ctx, "test"):
        pass
    assert swept == [ctx]


def test_an_eval_deletes_nothing_of_others(ctx, monkeypatch):
    deletions = []
    monkeypatch.setattr(retention, "delete_expired", deletions.append)
    for pinned_only, expected in ((True, 0), (False, 1)):
        reaper.make_reaper_thread(ctx, pinned_only=pinned_only)._action()
        assert len(deletions) == expected


def test_the_embedded_form_sweeps_again_after_the_interval(ctx, monkeypatch):
    monkeypatch.setattr(reaper, "RETENTION_INTERVAL_S", 0.0)
    swept = []
    monkeypatch.setattr(retention, "delete_expired", swept.append)
    with EmbeddedWorkers(ctx, "test"):
        wait_for(lambda: len(swept) > 1)
