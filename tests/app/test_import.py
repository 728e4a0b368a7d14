"""Samples made elsewhere, over HTTP and on the command line: the same checks, the same verdicts, the same sentences."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import gzip
import io
import json
import sqlite3

import pytest
from click.testing import CliRunner
from sqlalchemy import event, func, select, update

from app.background import handlers, jobs
from app.background.models import BackgroundJob
from app.background.work import handle_message
from app.cli.main import cli
from app.core.broker import queues
from app.core.db import database
from app.core.db.types import get_utc_time
from app.core.errors import ConflictError, NotFoundError
from app.core.states import BackgroundJobState
from app.jobs import reaper
from app.jobs.embedded import EmbeddedWorkers
from app.runs import hidden_runs, import_samples, transitions
from app.runs.models import Run, RunTask
from app.runs.repository import list_runs, load_tasks_with_samples
from app.runs.schemas import ImportSpec
from app.samples.models import Sample
from app.site.factory import create_app
from app.web.http import limits
from tests.fakes import RIGHT, WRONG, RecordingBroker

LINES = [
    {"task_id": f"add/{i}", "completion": text}
    for i in range(3)
    for text in ((RIGHT, WRONG) if i else (WRONG, WRONG))
]  # fmt: skip
OWN = {"task_id": "add/0", "index": 0, "raw": RIGHT, "program": RIGHT}


def as_file(rows) -> bytes:
    return "\n".join(json.dumps(row) for row in rows).encode()


@pytest.fixture
def client(ctx, additions):
    return create_app(ctx).test_client()


def post(client, data: bytes, origin: str = "samples.jsonl", **form):
    fields = {"target": "elsewhere", "dataset": "additions", **form}
    return client.post("/api/v1/runs/import", data={**fields, "file": (io.BytesIO(data), origin)})


def test_a_posted_file_becomes_a_run_that_is_judged(client, ctx):
    with EmbeddedWorkers(ctx, "test"):
        answer = post(client, gzip.compress(as_file(LINES)), "samples.jsonl.gz", name="theirs")
        assert answer.status_code == 201, answer.text
        client.get(f"{answer.headers['Location']}/events", buffered=True)
    shown = client.get(answer.headers["Location"]).json
    assert (shown["run"]["kind"], shown["run"]["state"], shown["run"]["name"]) == ("imported", "finished", "theirs")
    assert (shown["figures"]["tasks"], shown["figures"]["samples_passed"]) == (3, 2)
    assert shown["progress"]["tasks_finished"] == 3


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([{"task_id": "add/9", "completion": ""}], "field task_id: 'add/9' is not in the dataset"),
        ([], "holds no samples"),
        ([{**OWN, "finish_reason": "stopp"}], "field finish_reason is 'stopp': did you mean stop?"),
        ([{**OWN, "n_tokens": 2**40}], "sample 0 of add/0, field n_tokens is 1099511627776: give 2147483647 or less"),
        ([{**OWN, "n_tokens": 10**400}], "field n_tokens is 1000"),
        ([{**OWN, "finished_s": 1e308}], "field finished_s is 1e+308: give 1e+09 or less"),
        ([{**OWN, "mean_logprob": -1e308}], "field mean_logprob is -1e+308: give -1e+06 or more"),
        ([{**OWN, "seed": -1}], "field seed is -1: give 0 or more"),
        ([{**OWN, "finished_s": float("nan")}], "field finished_s is nan: give a number"),
        ([{**OWN, "finished_s": -1.0}], "field finished_s is -1.0: give 0 or more"),
        ([{**OWN, "budget_s": 0}], "field budget_s is 0"),
        ([{**OWN, "extraction": "x" * 21}], "shorten it to 20 characters"),
    ],
)
def test_what_is_no_sample_is_one_sentence_on_both_ways(client, ctx, tmp_path, monkeypatch, rows, sentence):
    answer = post(client, as_file(rows))
    assert answer.status_code == 422
    assert sentence in answer.json["detail"]
    assert answer.json["errors"][0]["field"] == "file"
    file = tmp_path / "samples.jsonl"
    file.write_bytes(as_file(rows))
    monkeypatch.setattr("app.cli.common.make_context", lambda: ctx)
    command = ["runs", "import", str(file), "--target", "elsewhere", "--dataset", "additions"]
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 2
    assert answer.json["detail"] in result.stderr
    assert client.get("/api/v1/runs").json["runs"] == []


def test_fields_are_checked_like_those_of_any_run(client):
    assert post(client, as_file(LINES), dataset="aditions").json["errors"][0]["field"] == "dataset"
    assert post(client, as_file(LINES), target="").json["errors"][0]["field"] == "target"
    assert post(client, as_file(LINES), colour="red").json["errors"][0]["field"] == "colour"
    assert client.post("/api/v1/runs/import", json={}).status_code == 415


def test_a_name_of_a_file_is_text_and_never_too_long(client):
    answer = post(client, as_file(LINES), "a\x01b" + "c" * 500)
    assert answer.status_code == 201
    assert answer.json["run"]["name"].startswith("elsewhere (abccc")


def test_a_file_beyond_the_limit_is_refused_before_it_is_read(client, monkeypatch):
    monkeypatch.setattr(limits, "UPLOAD_BYTES", 1000)
    assert post(client, as_file(LINES * 50)).status_code == 413


def test_a_part_of_a_form_without_a_name_is_refused(client):
    body = b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--\r\n"
    answer = client.post("/api/v1/runs/import", data=body, content_type="multipart/form-data; boundary=b")
    assert answer.status_code == 422
    assert "has no name" in answer.json["detail"]


@pytest.fixture
def many(ctx, additions):
    """Imports a file of 30 samples, three a transaction; returns the id of the run."""

    def submit(n: int = 30, **changes):
        data = as_file([{"task_id": f"add/{i % 3}", "completion": RIGHT} for i in range(n)])
        settings = ctx.settings.model_copy(update=changes)
        spec = ImportSpec(target="elsewhere", dataset="additions")
        return import_samples.submit_import(dataclasses.replace(ctx, settings=settings), spec, data, "samples.jsonl")

    return submit


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(hidden_runs, "BATCH", 3)
    monkeypatch.setattr(database, "SHORTEST_TURN_S", 0.0)


@pytest.fixture
def written(ctx):
    """The number of rows of each INSERT into samples, and after each transaction the number of listed runs."""
    inserted, listed = [], []

    def count(connection, cursor, statement, parameters, context, executemany):
        if statement.startswith("INSERT INTO samples"):
            inserted.append(len(parameters) if executemany else 1)

    def look(connection):
        if inserted:
            with sqlite3.connect(ctx.database.file) as other:  # writes at once: nobody holds the lock
                other.execute("PRAGMA busy_timeout=0")
                other.execute("UPDATE runs SET note = note")
            with ctx.database.read() as session:
                listed.append(len(list_runs(session)))

    event.listen(ctx.database.engine, "after_cursor_execute", count)
    original = handlers.begin_short_transaction

    @contextlib.contextmanager
    def watched(db):
        with original(db) as session:
            yield session
        look(db)

    handlers.begin_short_transaction = watched
    yield inserted, listed
    handlers.begin_short_transaction = original
    event.remove(ctx.database.engine, "after_cursor_execute", count)


def test_samples_are_stored_in_short_transactions_and_the_run_is_hidden_meanwhile(ctx, many, small_batches, written):
    inserted, listed = written
    run_id = many()
    assert inserted == [3] * 10
    assert set(listed) == {0}
    with ctx.database.read() as session:
        (run,) = list_runs(session)
        assert (run.id, run.state, run.error) == (run_id, "queued", None)
        tasks = load_tasks_with_samples(session, run_id)
        assert [[s.index for s in task.samples] for task in tasks] == [list(range(10))] * 3
        assert {s.raw for task in tasks for s in task.samples} == {RIGHT}


def test_an_import_that_fails_leaves_nothing(ctx, many, small_batches, monkeypatch):
    def fail(*arguments):
        raise OSError("the disk is full")

    monkeypatch.setattr(hidden_runs, "_insert_samples", fail)
    with pytest.raises(OSError, match="disk"):
        many()
    assert_nothing_stored(ctx)


class KilledError(BaseException):
    """The process ends here: it neither finishes nor cancels its job."""


@pytest.fixture
def kill(ctx, monkeypatch):
    """Calls something and lets the process die before the step that stores this batch of samples."""

    def kill_at(n_batches: int, action) -> None:
        left = iter(range(n_batches))
        original = hidden_runs.insert

        def insert(table):
            if table is Sample and next(left, None) is None:
                raise KilledError
            return original(table)

        with monkeypatch.context() as dying:
            dying.setattr(hidden_runs, "insert", insert)
            dying.setattr("app.background.work.cancel", lambda *_: None)
            with pytest.raises(KilledError):
                action()
        with ctx.database.session() as session:
            running = update(BackgroundJob).where(BackgroundJob.state == BackgroundJobState.RUNNING)
            session.execute(running.values(lease_until=get_utc_time() - dt.timedelta(seconds=1)))

    return kill_at


def test_an_import_whose_process_died_is_hidden_and_finished_by_a_worker(ctx, many, small_batches, written, kill):
    inserted, listed = written
    ctx.broker = RecordingBroker()
    kill(4, many)
    with ctx.database.read() as session:
        assert list_runs(session) == []
        (run,) = session.scalars(select(Run)).all()
        with pytest.raises(NotFoundError, match="there is no run"):
            transitions.reopen(ctx, run.id)
    assert inserted == [3] * 4
    reaper.reap(ctx)
    reaper.reap(ctx)
    ((task, job_id),) = ctx.broker.sent
    assert task == queues.WORK_JOB
    handle_message(ctx, job_id)
    assert inserted == [3] * 10  # no step was done twice
    assert set(listed) == {0}
    with ctx.database.read() as session:
        assert [one.id for one in list_runs(session)] == [run.id]
        tasks = load_tasks_with_samples(session, run.id)
        assert [[s.index for s in task.samples] for task in tasks] == [list(range(10))] * 3
        job = session.get_one(BackgroundJob, job_id)
        assert (job.state, job.done, job.input) == (BackgroundJobState.FINISHED, 30, None)


def test_an_import_that_is_cancelled_leaves_nothing(ctx, many, small_batches, kill):
    kill(4, many)
    with ctx.database.read() as session:
        (job,) = session.scalars(select(BackgroundJob)).all()
    jobs.cancel(ctx, job.id)
    reaper.reap(ctx)
    assert_nothing_stored(ctx)
    with ctx.database.read() as session:
        assert session.get_one(BackgroundJob, job.id).state is BackgroundJobState.CANCELLED
    with pytest.raises(ConflictError, match="its file is not stored any more: send it again"):
        jobs.retry(ctx, job.id)


def assert_nothing_stored(ctx):
    with ctx.database.read() as session:
        for table in (Run, RunTask, Sample):
            assert session.scalar(select(func.count()).select_from(table)) == 0


def test_a_file_with_too_many_samples_is_refused_on_both_ways(ctx, client, tmp_path, monkeypatch):
    monkeypatch.setattr(import_samples, "MAX_SAMPLES_OF_TASK", 4)
    ctx.settings = ctx.settings.model_copy(update={"import_samples": 5})
    rows = [{"task_id": f"add/{i % 2}", "completion": RIGHT} for i in range(6)]
    answer = post(client, as_file(rows))
    assert answer.status_code == 413
    assert answer.json["detail"] == (
        "samples.jsonl holds more than 5 samples: split it, or raise BASSLINE_IMPORT_SAMPLES"
    )
    file = tmp_path / "samples.jsonl"
    file.write_bytes(as_file(rows))
    monkeypatch.setattr("app.cli.common.make_context", lambda: ctx)
    result = CliRunner().invoke(cli, ["runs", "import", str(file), "--target", "x", "--dataset", "additions"])
    assert (result.exit_code, answer.json["detail"] in result.stderr) == (2, True)
    of_one_task = post(client, as_file([rows[0]] * 5))
    assert (of_one_task.status_code, "more than 4 samples of add/0" in of_one_task.json["detail"]) == (413, True)
    assert_nothing_stored(ctx)
