"""A Celery worker waits for a quiet machine as the embedded one does: its job is the same function."""

from __future__ import annotations

import threading

import pytest

from app.core.broker.queues import DECODE_TASK
from app.core.states import DatasetKind
from app.datasets import service as datasets
from app.jobs import celery_tasks
from app.jobs.work import prepare, quiet_wait
from app.runs import service
from app.runs.quiet import describe_quiet_wait, parse_quiet_wait
from app.runs.repository import get_run
from app.runs.schemas import RunSpec
from evaluation.datasets import Dataset, Task
from tests.busy_loops import busy_loops
from tests.fakes import RIGHT, RecordingBroker
from tests.integration.conftest import sqlite_when_thorough
from tests.integration.waiting import wait_for

pytestmark = sqlite_when_thorough


def run_of(ctx, run_id):
    with ctx.database.read() as session:
        return get_run(session, run_id)


@pytest.fixture
def jobs(ctx, monkeypatch):
    """Submits a run of two tasks that waits, and returns its id and the messages for a worker."""
    ctx.broker = RecordingBroker()
    monkeypatch.setattr(celery_tasks, "get_current", lambda: ctx)
    tasks = tuple(Task(f"add/{i}", "def add(a, b):\n", "add", "def check(candidate): ...", RIGHT) for i in range(2))
    datasets.store_dataset(ctx, Dataset("additions", tasks, "f" * 64), DatasetKind.IMPORTED)

    def submit(limit_s: float):
        run_id = service.submit(ctx, RunSpec(target="smollm2-135m", dataset="additions", n=1, quiet_limit_s=limit_s))
        prepare.prepare_run(ctx, run_id)
        return run_id, [str(row_id) for task, row_id in ctx.broker.sent if task == DECODE_TASK]

    return submit


def test_a_celery_worker_waits_until_the_machine_is_quiet(ctx, jobs, monkeypatch):
    engine = ctx.load_engine(None, None)
    run_id, (first, _) = jobs(600)
    with busy_loops() as loops:
        monkeypatch.setattr(quiet_wait, "_measure", loops.measure)
        worker = threading.Thread(target=celery_tasks.TASKS[DECODE_TASK], args=(first,))
        worker.start()
        wait_for(lambda: describe_quiet_wait([run_of(ctx, run_id)]))
        assert engine.requests == []
        loops.stop()
        worker.join(60)
    assert len(engine.requests) == 1
    wait = parse_quiet_wait(run_of(ctx, run_id).quiet)
    assert (wait.limit_s, wait.lost) == (600.0, None)
    assert wait.waited_s > 0


def test_a_celery_worker_goes_on_at_the_limit(ctx, jobs):
    engine = ctx.load_engine(None, None)
    run_id, messages = jobs(0.2)
    with busy_loops():
        for message in messages:
            celery_tasks.TASKS[DECODE_TASK](message)
    assert len(engine.requests) == 2
    assert parse_quiet_wait(run_of(ctx, run_id).quiet).waited_s == pytest.approx(0.2)
