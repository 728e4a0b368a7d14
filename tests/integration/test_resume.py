"""Resuming does what is left and nothing else: no sample is decoded twice, none that came from elsewhere is lost."""

from __future__ import annotations

import json
import uuid

import pytest
from sqlalchemy import select

from app.core.errors import ConflictError
from app.core.states import DatasetKind, RunState, TaskState
from app.datasets import service as datasets
from app.jobs.work import grade, prepare
from app.jobs.work.decode import decode_task
from app.runs import import_samples, service, transitions
from app.runs.models import RunTask
from app.runs.repository import compute_progress, get_run, load_tasks_with_samples
from app.runs.schemas import ImportSpec, RunSpec
from evaluation.datasets import Dataset, Task
from tests.fakes import RIGHT, FakeGrader
from tests.integration.conftest import sqlite_when_thorough

pytestmark = sqlite_when_thorough
N_TASKS = 3


class BrokenGrader(FakeGrader):
    def judge_many(self, items, workers):
        if items[0][1].canonical_solution and len(items) == N_TASKS:
            yield from super().judge_many(items, workers)  # the check of the dataset
            return
        raise OSError("no room in /tmp")


@pytest.fixture
def dataset(ctx) -> str:
    tasks = tuple(
        Task(f"add/{i}", "def add(a, b):\n", "add", "def check(candidate): ...", RIGHT) for i in range(N_TASKS)
    )
    datasets.store_dataset(ctx, Dataset("additions", tasks, "f" * 64), DatasetKind.IMPORTED)
    return "additions"


def submitted(ctx, dataset: str, **changes) -> uuid.UUID:
    run_id = service.submit(ctx, RunSpec(target="smollm2-135m", dataset=dataset, n=2, **changes))
    prepare.prepare_run(ctx, run_id)
    return run_id


def imported(ctx, dataset: str, tmp_path) -> uuid.UUID:
    file = tmp_path / "samples.jsonl"
    file.write_text("\n".join(json.dumps({"task_id": f"add/{i}", "completion": RIGHT}) for i in range(N_TASKS)))
    run_id = import_samples.submit_import(
        ctx, ImportSpec(target="elsewhere", dataset=dataset), file.read_bytes(), file.name
    )
    prepare.prepare_run(ctx, run_id)
    return run_id


def rows(ctx, run_id) -> list[RunTask]:
    with ctx.database.read() as session:
        return list(load_tasks_with_samples(session, run_id))


def job_ids(ctx, run_id) -> list[uuid.UUID]:
    with ctx.database.read() as session:
        return list(session.scalars(select(RunTask.id).where(RunTask.run_id == run_id).order_by(RunTask.position)))


def counts(ctx, run_id) -> tuple[int, int, int, bool]:
    with ctx.database.read() as session:
        found = compute_progress(session, get_run(session, run_id))
    return found.decoded, found.finished, found.left, found.resumable


def work(ctx, run_id, attempts: int = 1) -> None:
    for job_id in job_ids(ctx, run_id):
        decode_task(ctx, job_id)
        for _ in range(attempts):
            grade.grade_task(ctx, job_id)


def state(ctx, run_id) -> RunState:
    with ctx.database.read() as session:
        return get_run(session, run_id).state


@pytest.mark.parametrize("make", [submitted, imported])
def test_samples_of_which_grading_failed_are_graded_again_and_never_decoded_again(ctx, dataset, make, tmp_path):
    ctx.make_grader = BrokenGrader
    run_id = make(ctx, dataset, **({"tmp_path": tmp_path} if make is imported else {}))
    work(ctx, run_id, attempts=3)
    assert state(ctx, run_id) is RunState.FAILED
    assert counts(ctx, run_id) == (0, 0, N_TASKS, True)
    before = [[s.id for s in row.samples] for row in rows(ctx, run_id)]
    ctx.make_grader = FakeGrader
    n_requests = len(ctx.load_engine(None, None).requests)
    service.resume(ctx, run_id)
    prepare.prepare_run(ctx, run_id)
    assert {row.state for row in rows(ctx, run_id)} == {TaskState.DECODED}
    work(ctx, run_id)
    assert state(ctx, run_id) is RunState.FINISHED
    assert [[s.id for s in row.samples] for row in rows(ctx, run_id)] == before
    assert len(ctx.load_engine(None, None).requests) == n_requests
    assert counts(ctx, run_id) == (N_TASKS, N_TASKS, 0, False)


def test_decoded_graded_and_left_are_told_apart_and_a_run_stopped_while_grading_can_be_resumed(ctx, dataset):
    run_id = submitted(ctx, dataset)
    first, *rest = job_ids(ctx, run_id)
    for job_id in (first, *rest):
        decode_task(ctx, job_id)
    grade.grade_task(ctx, first)
    assert counts(ctx, run_id) == (N_TASKS, 1, 2, False)  # still running
    transitions.interrupt(ctx, run_id, "stopped")
    assert counts(ctx, run_id) == (N_TASKS, 1, 2, True)
    with ctx.database.read() as session:
        found = get_run(session, run_id).figures
    assert (found.tasks, found.tasks_decoded, found.tasks_left) == (1, N_TASKS, 2)
    service.resume(ctx, run_id)
    prepare.prepare_run(ctx, run_id)
    work(ctx, run_id)
    assert counts(ctx, run_id) == (N_TASKS, N_TASKS, 0, False)
    with pytest.raises(ConflictError, match="nothing is left to resume"):
        service.resume(ctx, run_id)


def test_what_a_time_limit_left_is_worked_on_resume(ctx, dataset):
    run_id = submitted(ctx, dataset, time_limit_s=1e-6)
    work(ctx, run_id)
    assert state(ctx, run_id) is RunState.FINISHED
    assert counts(ctx, run_id) == (1, 1, 2, True)
    service.resume(ctx, run_id)
    prepare.prepare_run(ctx, run_id)
    work(ctx, run_id)
    assert counts(ctx, run_id) == (N_TASKS, N_TASKS, 0, False)


def test_a_cancelled_import_ends_at_once_and_keeps_its_samples_for_a_resume(ctx, dataset, tmp_path):
    run_id = imported(ctx, dataset, tmp_path)
    first = job_ids(ctx, run_id)[0]
    grade.grade_task(ctx, first)
    service.cancel(ctx, run_id)
    assert state(ctx, run_id) is RunState.CANCELLED
    service.resume(ctx, run_id)
    prepare.prepare_run(ctx, run_id)
    work(ctx, run_id)
    assert state(ctx, run_id) is RunState.FINISHED
    assert [len(row.samples) for row in rows(ctx, run_id)] == [1] * N_TASKS
