"""A kind of background work is one handler and one line in the registry; everything else is the same for all kinds."""

from __future__ import annotations

import json
import uuid

import pytest
from click.testing import CliRunner
from sqlalchemy import select

from app import domains
from app.background import handlers, jobs, work
from app.background.handlers import Handler, UnfinishedError
from app.background.leases import LostClaimError
from app.background.models import BackgroundJob
from app.background.work import handle_message, hold_command
from app.cli.main import cli
from app.core.broker import queues
from app.core.errors import BadInputError, CancelledError, ConflictError
from app.core.lazy_registry import LazyRegistry
from app.core.states import BackgroundJobState
from app.jobs import reaper
from app.jobs.embedded import EmbeddedWorkers
from app.site.factory import create_app
from tests.fakes import RecordingBroker
from tests.integration.waiting import wait_for


class CountWords(Handler):
    """A new kind of work: all that it takes."""

    kind = "count_words"

    def run(self, job, attempt):
        words = job.arguments["words"]
        for number in range(attempt.cursor.get("next", 0), len(words)):
            if words[number] == "fault" and job.attempt < 2:
                raise ValueError("a fault")
            if words[number] == "bad":
                raise BadInputError("a word is bad: leave it out")
            attempt.cursor["next"] = number + 1
            attempt.report(number + 1, len(words), "words")
            attempt.save()
        return {"n": len(words)}


@pytest.fixture(autouse=True)
def one_line_in_the_registry(monkeypatch):
    registry = LazyRegistry(lambda handler: handler.kind)
    registry.register(lambda: [*domains._import_handlers(), CountWords()])
    monkeypatch.setattr(handlers, "HANDLERS", registry)


@pytest.fixture(autouse=True)
def broker(ctx) -> RecordingBroker:
    ctx.broker = RecordingBroker()
    return ctx.broker


def open_job(ctx, *words: str, key: str | None = None) -> uuid.UUID:
    return jobs.open_job(ctx, "count_words", "some words", key=key, arguments={"words": words})


def job_of(ctx, job_id) -> BackgroundJob:
    with ctx.database.read() as session:
        return jobs.get_job(session, job_id)


def test_a_new_kind_of_work_is_done_by_a_worker_and_shown_everywhere(ctx, monkeypatch):
    job_id = open_job(ctx, "a", "b")
    with EmbeddedWorkers(ctx, "test"):
        ctx.broker.send([(queues.WORK_JOB, job_id)], queues.EXEC)
        wait_for(lambda: job_of(ctx, job_id).state is BackgroundJobState.FINISHED)
    job = job_of(ctx, job_id)
    assert (job.done, job.total, job.result, job.lease_until, job.fence) == (2, 2, {"n": 2}, None, None)
    client = create_app(ctx).test_client()
    assert client.get(f"/api/v1/jobs/{job_id}").json["result"] == {"n": 2}
    assert [one["id"] for one in client.get("/api/v1/jobs?state=finished").json["jobs"]] == [str(job_id)]
    assert client.get("/api/v1/jobs?state=failed").json["jobs"] == []
    page = client.get("/jobs").get_data(as_text=True)
    assert "some words" in page
    assert "2 of 2" in page
    monkeypatch.setattr("app.cli.common.make_context", lambda: ctx)
    listed = CliRunner().invoke(cli, ["jobs", "list", "--json", "-"])
    assert [one["subject"] for one in json.loads(listed.stdout)] == ["some words"]
    shown = CliRunner().invoke(cli, ["jobs", "show", str(job_id)[:13], "--json", "-"])
    assert json.loads(shown.stdout)["arguments"] == {"words": ["a", "b"]}
    refused = CliRunner().invoke(cli, ["jobs", "cancel", str(job_id)])
    assert (refused.exit_code, "only a queued or running one" in refused.stderr) == (1, True)
    assert CliRunner().invoke(cli, ["jobs", "show", "0123"]).exit_code == 2


def test_equal_work_is_one_job_and_opened_again_it_goes_on(ctx, broker, monkeypatch):
    monkeypatch.setattr(work, "JOB_TURN_S", 0.0)
    job_id = open_job(ctx, "a", "b", key="same")
    assert open_job(ctx, "a", "b", key="same") == job_id
    handle_message(ctx, job_id)
    assert (job_of(ctx, job_id).state, job_of(ctx, job_id).cursor) == (BackgroundJobState.QUEUED, {"next": 1})
    assert broker.sent == [(queues.WORK_JOB, job_id)]
    jobs.cancel(ctx, job_id)
    assert job_of(ctx, job_id).state is BackgroundJobState.CANCELLED
    with pytest.raises(ConflictError, match="only a queued or running one"):
        jobs.cancel(ctx, job_id)
    assert open_job(ctx, "a", "b", key="same") == job_id
    assert work.run_job(ctx, job_id) == {"n": 2}
    assert open_job(ctx, "a", "b", key="same") != job_id


def test_a_fault_is_tried_again_and_bad_input_is_not(ctx, broker):
    job_id = open_job(ctx, "a", "fault")
    handle_message(ctx, job_id)
    assert (job_of(ctx, job_id).state, job_of(ctx, job_id).error) == (BackgroundJobState.QUEUED, "ValueError: a fault")
    for _ in range(2):
        handle_message(ctx, job_id)
    job = job_of(ctx, job_id)
    assert (job.state, job.error, job.attempt) == (BackgroundJobState.FINISHED, None, 0)
    bad = open_job(ctx, "bad")
    with pytest.raises(BadInputError):
        work.run_job(ctx, bad)
    assert (job_of(ctx, bad).state, job_of(ctx, bad).error) == (
        BackgroundJobState.FAILED,
        "a word is bad: leave it out",
    )
    answer = create_app(ctx).test_client().post(f"/api/v1/jobs/{bad}/retry")
    assert (answer.status_code, answer.json["state"]) == (202, "queued")
    assert broker.sent[-1] == (queues.WORK_JOB, bad)


def test_a_running_job_that_is_cancelled_ends_after_its_step(ctx):
    job_id = open_job(ctx, "a")

    def do_job() -> None:
        with work.hold_job(ctx, job_id) as attempt:
            jobs.cancel(ctx, job_id)
            wait_for(lambda: attempt.lease.stop_reason is not None)
            attempt.save()

    with pytest.raises(CancelledError):
        do_job()
    assert job_of(ctx, job_id).state is BackgroundJobState.CANCELLED


def test_a_process_that_stops_returns_its_job(ctx, broker):
    job_id = open_job(ctx, "a", "b")
    ctx.stopping.set()
    with pytest.raises(UnfinishedError):
        work.run_job(ctx, job_id)
    assert (job_of(ctx, job_id).state, job_of(ctx, job_id).cursor, broker.sent) == (
        BackgroundJobState.QUEUED,
        {"next": 1},
        [],
    )
    ctx.stopping.clear()
    reaper.reap(ctx)
    assert broker.sent == [(queues.WORK_JOB, job_id)]


def test_what_only_a_command_can_do_is_a_job_that_no_worker_takes(ctx, broker):
    with hold_command(ctx, "build_from_code", "project", "state") as attempt:
        attempt.report(1, 3, "functions")
        again = hold_command(ctx, "build_from_code", "project", "state")
        with pytest.raises(ConflictError, match="another process does this for project"), again:
            pytest.fail("two processes do the same")
    assert job_of(ctx, attempt.job.id).state is BackgroundJobState.FINISHED
    with pytest.raises(ZeroDivisionError), hold_command(ctx, "build_from_code", "project", "state") as attempt:
        1 / 0  # noqa: B018
    job = job_of(ctx, attempt.job.id)
    assert (job.state, job.error) == (BackgroundJobState.FAILED, "ZeroDivisionError: division by zero")
    with pytest.raises(ConflictError, match="give the command again"):
        jobs.retry(ctx, job.id)
    with ctx.database.session() as session:
        killed = session.get_one(BackgroundJob, job.id)
        killed.state, killed.lease_until = BackgroundJobState.RUNNING, killed.created_at
    reaper.reap(ctx)
    assert (job_of(ctx, job.id).state, "give the command again" in job_of(ctx, job.id).error) == (
        BackgroundJobState.FAILED,
        True,
    )
    with pytest.raises(LostClaimError):
        work.run_job(ctx, job.id)
    assert broker.sent == []


def test_the_page_cancels_and_says_why_it_does_not(ctx):
    client = create_app(ctx).test_client()
    client.application.config["WTF_CSRF_ENABLED"] = False
    job_id = open_job(ctx, "a")
    assert "Cancel" in client.get("/jobs").get_data(as_text=True)
    assert client.post(f"/jobs/{job_id}/cancel").status_code == 303
    again = client.post(f"/jobs/{job_id}/cancel")
    assert again.status_code == 409
    assert "the job is cancelled" in again.get_data(as_text=True).lower()
    with ctx.database.read() as session:
        assert session.scalars(select(BackgroundJob.state)).all() == [BackgroundJobState.CANCELLED]


def test_lost_work_is_named_without_empty_brackets_or_blanks():
    assert CountWords().describe_loss(BackgroundJob(done=1, total=3, message="")) == "did this (1 of 3)"
    assert CountWords().describe_loss(BackgroundJob(done=1, total=3, message="words")) == "did this (1 of 3 words)"
