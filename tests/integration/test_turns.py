"""Runs take turns: a long one does not keep a short one waiting, whatever the order of their messages."""

from __future__ import annotations

import threading
import uuid

import pytest
from sqlalchemy import func, select

from app.core.broker import turns
from app.core.broker.queues import DECODE_TASK, GRADE_TASK
from app.core.states import DatasetKind, RunState, TaskState
from app.datasets import service as datasets
from app.jobs.work import grade, prepare
from app.jobs.work.decode import decode_task
from app.runs import service
from app.runs.configuration import build_engine_config
from app.runs.models import RunTask
from app.runs.repository import get_run
from app.runs.schemas import RunSpec
from app.samples.models import Sample
from evaluation.datasets import Dataset, Task
from tests.fakes import RIGHT, FakeEngine, RecordingBroker
from tests.integration.conftest import sqlite_when_thorough

pytestmark = sqlite_when_thorough

LONG, SHORT = 12, 3


@pytest.fixture(autouse=True)
def broker(ctx) -> RecordingBroker:
    ctx.broker = RecordingBroker()
    return ctx.broker


@pytest.fixture
def engine(ctx) -> FakeEngine:
    return ctx.load_engine(None, None)


@pytest.fixture
def submitted(ctx):
    tasks = tuple(Task(f"add/{i}", "def add(a, b):\n", "add", "def check(candidate): ...", RIGHT) for i in range(LONG))
    datasets.store_dataset(ctx, Dataset("additions", tasks, "f" * 64), DatasetKind.IMPORTED)

    def submit(seed: int, limit: int, **changes) -> uuid.UUID:
        spec = RunSpec(target="smollm2-135m", dataset="additions", n=1, seed=seed, limit=limit, **changes)
        run_id = service.submit(ctx, spec)
        prepare.prepare_run(ctx, run_id)
        return run_id

    return submit


def sent_for(broker, step: str) -> list[uuid.UUID]:
    return [row_id for task, row_id in broker.sent if task == step]


def served(engine) -> str:
    """The seeds of the requests, in their order."""
    return "".join(str(request.seed) for request in engine.requests)


def test_a_short_run_behind_a_long_one_is_decoded_turn_by_turn_and_every_task_once(ctx, engine, submitted, broker):
    long, short = submitted(1, LONG), submitted(2, SHORT)
    for job in sent_for(broker, DECODE_TASK):
        decode_task(ctx, job)
    assert served(engine) == "121212" + "1" * (LONG - SHORT)
    graded = sent_for(broker, GRADE_TASK)
    for job in graded:
        grade.grade_task(ctx, job)
    with ctx.database.read() as session:
        assert [get_run(session, run).state for run in (long, short)] == [RunState.FINISHED] * 2
        assert session.scalar(select(func.count()).select_from(Sample)) == LONG + SHORT


def test_an_import_that_waits_to_be_graded_lets_others_through(ctx, submitted, broker):
    long, short = submitted(1, LONG), submitted(2, SHORT)
    for job in sent_for(broker, DECODE_TASK):
        decode_task(ctx, job)
    in_order = []
    with ctx.database.read() as session:
        for run in (long, short):
            in_order += session.scalars(select(RunTask.id).where(RunTask.run_id == run)).all()
    for job in in_order[: 2 * SHORT]:  # all of them messages of the long run
        grade.grade_task(ctx, job)
    with ctx.database.read() as session:
        assert get_run(session, short).state is RunState.FINISHED


def test_a_message_of_an_ended_run_still_serves_who_waits(ctx, engine, submitted, broker):
    gone, other = submitted(1, LONG), submitted(2, SHORT)
    service.cancel(ctx, gone)
    for job in sent_for(broker, DECODE_TASK)[:SHORT]:
        decode_task(ctx, job)
    assert served(engine) == "2" * SHORT
    with ctx.database.read() as session:
        states = session.scalars(select(RunTask.state).where(RunTask.run_id == other)).all()
    assert set(states) == {TaskState.DECODED}


def test_the_run_with_the_fewest_tasks_at_work_is_next(ctx, engine, submitted, broker):
    submitted(1, LONG)
    engine.hold = threading.Event()
    jobs = sent_for(broker, DECODE_TASK)
    workers = [threading.Thread(target=decode_task, args=(ctx, job)) for job in jobs[:2]]
    for worker in workers:
        engine.started.clear()
        worker.start()
        assert engine.started.wait(60)
    submitted(2, SHORT)
    engine.started.clear()
    late = threading.Thread(target=decode_task, args=(ctx, jobs[2]))
    late.start()
    assert engine.started.wait(60)
    assert served(engine) == "112"
    engine.hold.set()
    for worker in (*workers, late):
        worker.join()


@pytest.mark.parametrize(("turn_s", "expected"), [(1e9, "1" * LONG + "2" * SHORT), (-1.0, "121212" + "1" * 9)])
def test_a_run_that_needs_another_engine_gets_its_turn_when_that_of_the_loaded_one_is_over(
    ctx, engine, submitted, broker, monkeypatch, turn_s, expected
):
    monkeypatch.setattr(turns, "TURN_S", turn_s)
    submitted(1, LONG)
    submitted(2, SHORT, drafter="none")
    for job in sent_for(broker, DECODE_TASK):
        decode_task(ctx, job)
    assert served(engine) == expected


def test_runs_whose_engines_are_in_memory_change_from_task_to_task(ctx, engine, submitted, broker, monkeypatch):
    monkeypatch.setattr(turns, "TURN_S", 1e9)
    runs = [submitted(1, LONG), submitted(2, SHORT, drafter="none")]
    with ctx.database.read() as session:
        for run in runs:
            ctx.engines.get(build_engine_config(get_run(session, run)), lambda: engine)
    submitted(3, SHORT, drafter="ngram")  # not in memory: after the others
    for job in sent_for(broker, DECODE_TASK):
        decode_task(ctx, job)
    assert served(engine) == "12" * SHORT + "1" * (LONG - SHORT) + "3" * SHORT


@pytest.mark.parametrize(("turn_s", "expected"), [(1e9, "1" * LONG), (-1.0, "1")])
def test_a_batch_of_tasks_ends_with_its_turn_where_another_run_waits(
    ctx, engine, submitted, broker, monkeypatch, turn_s, expected
):
    monkeypatch.setattr(turns, "TURN_S", turn_s)
    submitted(1, LONG, throughput=True)
    submitted(2, SHORT)
    engine.places = 1
    decode_task(ctx, sent_for(broker, DECODE_TASK)[0])
    assert served(engine) == expected
    decode_task(ctx, sent_for(broker, DECODE_TASK)[1])
    assert served(engine)[len(expected)] == "2"


def test_runs_pinned_to_this_process_are_worked_as_they_come(ctx, engine, submitted, broker):
    submitted(1, LONG)
    pinned = service.submit(
        ctx, RunSpec(target="smollm2-135m", dataset="additions", n=1, seed=3), pinned_worker=ctx.worker_name
    )
    prepare.prepare_run(ctx, pinned)
    for job in sent_for(broker, DECODE_TASK)[LONG:]:
        decode_task(ctx, job)
    assert served(engine) == "3" * LONG
