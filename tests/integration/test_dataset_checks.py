"""Checking a dataset's canonical solutions: one worker at a time, in steps that survive it."""

from __future__ import annotations

import dataclasses
import datetime as dt
import threading
from collections.abc import Iterator, Sequence

import pytest
from sqlalchemy import select, update

from app.background import work as background
from app.background.jobs import open_job
from app.background.leases import LostClaimError
from app.background.models import BackgroundJob
from app.background.work import hold_job
from app.core.broker import queues
from app.core.db.types import get_utc_time
from app.core.states import BackgroundJobState, DatasetKind, Failure, RunState
from app.datasets import checking
from app.datasets import service as datasets
from app.datasets.checking import check_solutions, check_solutions_within
from app.datasets.models import DatasetCheck
from app.jobs import reaper
from app.jobs.work import prepare
from app.runs import service
from app.runs.models import Run
from app.runs.repository import get_run
from app.runs.schemas import RunSpec
from evaluation.datasets import Dataset, Task
from evaluation.verdicts import Verdict
from tests.fakes import RIGHT, FakeGrader, RecordingBroker
from tests.integration.waiting import wait_for

pytestmark = pytest.mark.slow
N_TASKS = 12
BROKEN = "add/3"


class CountingGrader(FakeGrader):
    """Notes what it judges; stops for good, as a killed worker does, before the solution `dies_at`."""

    def __init__(self, judged: list[str], dies_at: str | None = None, gate: threading.Event | None = None) -> None:
        self._judged, self._dies_at, self._gate = judged, dies_at, gate

    def judge_many(self, items: Sequence[tuple[str, Task]], workers: int) -> Iterator[tuple[int, Verdict]]:
        for position, verdict in super().judge_many(items, workers):
            task_id = items[position][1].task_id
            if task_id == self._dies_at:
                raise KilledError
            if self._gate is not None:
                assert self._gate.wait(30)
            self._judged.append(task_id)
            yield position, verdict


class KilledError(BaseException):
    """The worker ends here."""


@pytest.fixture(autouse=True)
def each_verdict_is_a_step(monkeypatch):
    monkeypatch.setattr(checking, "STEP_S", 0.0)


@pytest.fixture(autouse=True)
def broker(ctx) -> RecordingBroker:
    ctx.broker = RecordingBroker()
    return ctx.broker


@pytest.fixture
def dataset(ctx):
    check = "def check(candidate): ...\n"
    solutions = [RIGHT if f"add/{i}" != BROKEN else "    return 'broken'\n" for i in range(N_TASKS)]
    tasks = tuple(Task(f"add/{i}", "def add(a, b):\n", "add", check, text) for i, text in enumerate(solutions))
    return datasets.store_dataset(ctx, Dataset("additions", tasks, "f" * 64), DatasetKind.IMPORTED)


def submit(ctx):
    return service.submit(ctx, RunSpec(target="smollm2-135m", dataset="additions", n=2))


def run_of(ctx, run_id) -> Run:
    with ctx.database.read() as session:
        return get_run(session, run_id)


def make_worker(ctx, judged: list[str], *arguments, name: str = "worker:1"):
    """The context of a worker that notes what it judges."""
    made = dataclasses.replace(ctx, worker_name=name, make_grader=lambda: CountingGrader(judged, *arguments))
    made.broker = ctx.broker
    return made


def kill_worker(ctx, dataset, judged: list[str], dies_at: str) -> None:
    """Lets a worker stop before a solution without another word: its lease expires."""
    with pytest.raises(KilledError):
        check_solutions_within(make_worker(ctx, judged, dies_at), dataset.id)
    expire(ctx)


def expire(ctx) -> None:
    with ctx.database.session() as session:
        running = update(BackgroundJob).where(BackgroundJob.state == BackgroundJobState.RUNNING)
        session.execute(running.values(lease_until=get_utc_time() - dt.timedelta(seconds=1)))


def open_check(ctx, dataset):
    """The id of the job of checking the dataset."""
    arguments = {"dataset_id": str(dataset.id)}
    return open_job(ctx, checking.KIND, dataset.name, key=f"{dataset.id} fake", arguments=arguments)


def job_of(ctx) -> BackgroundJob:
    with ctx.database.read() as session:
        return session.scalars(select(BackgroundJob)).one()


def test_two_workers_judge_each_solution_once(ctx, dataset):
    judged: list[str] = []
    gate = threading.Event()
    workers = [make_worker(ctx, judged, None, gate, name=f"exec:{n}") for n in range(2)]
    results = []
    threads = [
        threading.Thread(target=lambda worker=worker: results.append(check_solutions(worker, dataset.id)))
        for worker in workers
    ]
    threads[0].start()
    wait_for(lambda: _lease_until(ctx) is not None)
    with pytest.raises(LostClaimError):
        check_solutions_within(workers[1], dataset.id)
    threads[1].start()
    gate.set()
    for thread in threads:
        thread.join(30)
    assert [list(found) for found in results] == [[BROKEN], [BROKEN]]
    assert sorted(judged) == sorted(f"add/{i}" for i in range(N_TASKS))
    job = job_of(ctx)
    assert (job.state, job.done, job.total, job.lease_until) == (BackgroundJobState.FINISHED, N_TASKS, N_TASKS, None)
    assert job.result["faults"] == {BROKEN: ["wrong_answer", ""]}


def test_the_check_of_a_killed_worker_goes_on_where_it_was(ctx, dataset):
    judged: list[str] = []
    kill_worker(ctx, dataset, judged, "add/7")
    assert list(check_solutions_within(make_worker(ctx, judged), dataset.id)) == [BROKEN]
    assert judged == [f"add/{i}" for i in range(N_TASKS)]
    with ctx.database.read() as session:
        assert session.scalars(select(DatasetCheck.failed)).all() == [[BROKEN]]


def test_a_worker_that_lost_its_lease_stores_nothing(ctx, dataset):
    job_id = open_check(ctx, dataset)

    def overtake(old) -> None:
        expire(ctx)
        with hold_job(ctx, job_id) as new:
            new.cursor = {"next": 1}
            new.save()
            old.cursor = {"next": 5}
            with pytest.raises(LostClaimError):
                old.save()
            raise KilledError

    def do_job() -> None:
        with hold_job(ctx, job_id) as old, pytest.raises(KilledError):
            overtake(old)

    with pytest.raises(LostClaimError):
        do_job()
    job = job_of(ctx)
    assert (job.state, job.cursor) == (
        BackgroundJobState.RUNNING,
        {"next": 1},
    )  # the old one neither finished nor returned it


def test_the_heartbeat_keeps_the_lease_during_one_long_solution(ctx, dataset):
    ctx.settings = ctx.settings.model_copy(update={"lease_s": 0.6, "heartbeat_s": 0.1})
    job_id = open_check(ctx, dataset)
    with hold_job(ctx, job_id) as step:
        until = _lease_until(ctx)
        wait_for(lambda: _lease_until(ctx) > until + dt.timedelta(seconds=0.6))
        step.require_wanted()
        with pytest.raises(LostClaimError), hold_job(ctx, job_id):
            pytest.fail("two workers have the job")


def _lease_until(ctx) -> dt.datetime | None:
    with ctx.database.read() as session:
        return session.scalar(select(BackgroundJob.lease_until))


def test_a_check_that_kills_its_workers_ends_the_run_with_a_sentence(ctx, dataset):
    run_ids = [submit(ctx), submit(ctx)]
    for _ in range(4):  # the first of them stores steps before it dies
        assert run_of(ctx, run_ids[0]).state is RunState.QUEUED
        kill_worker(ctx, dataset, [], "add/7")
    reaper.reap(ctx)
    for run_id in run_ids:
        run = run_of(ctx, run_id)
        assert (run.state, run.failure) == (RunState.FAILED, Failure.WORKER_LOST)
        assert "3 workers in a row stopped while they checked the canonical solutions of additions" in run.error
        assert "7 of 12 are checked, the next one is add/7" in run.error
    again = submit(ctx)
    prepare.prepare_run(ctx, again)  # perhaps with more memory
    assert run_of(ctx, again).state is RunState.RUNNING


def test_runs_wait_for_the_worker_that_checks_their_dataset(ctx, dataset, broker):
    first, second = submit(ctx), submit(ctx)
    gate = threading.Event()
    checking_worker = make_worker(ctx, [], None, gate, name=ctx.worker_name)
    work = threading.Thread(target=prepare.prepare_run, args=(checking_worker, first))
    work.start()
    wait_for(lambda: _lease_until(ctx) is not None)
    prepare.prepare_run(ctx, second)
    assert run_of(ctx, second).state is RunState.QUEUED
    broker.sent.clear()
    gate.set()
    work.join(30)
    assert (queues.PREPARE_RUN, second) in broker.sent
    prepare.prepare_run(ctx, second)
    assert {run_of(ctx, run_id).state for run_id in (first, second)} == {RunState.RUNNING}


def test_the_reaper_sends_the_message_of_a_check_whose_worker_was_lost(ctx, dataset, broker):
    submit(ctx)
    kill_worker(ctx, dataset, [], "add/7")
    broker.sent.clear()
    reaper.reap(ctx)
    reaper.reap(ctx)
    assert broker.sent == [(queues.WORK_JOB, job_of(ctx).id)]


def test_a_long_check_lets_other_work_of_its_worker_go_first(ctx, dataset, broker, monkeypatch):
    judged: list[str] = []
    ctx.make_grader = lambda: CountingGrader(judged)
    monkeypatch.setattr(prepare, "JOB_TURN_S", 0.0)
    monkeypatch.setattr(background, "JOB_TURN_S", 0.0)
    run_id = submit(ctx)
    broker.drain()
    prepare.prepare_run(ctx, run_id)
    for n in range(1, N_TASKS):
        assert len(judged) == n
        assert broker.get([queues.EXEC], 0.0) == (queues.WORK_JOB, job_of(ctx).id)
        background.handle_message(ctx, job_of(ctx).id)
    assert judged == [f"add/{i}" for i in range(N_TASKS)]
    assert broker.get(queues.ALL, 0.0) == (queues.PREPARE_RUN, run_id)
    prepare.prepare_run(ctx, run_id)
    assert run_of(ctx, run_id).state is RunState.RUNNING


def test_a_process_that_stops_or_a_run_that_is_cancelled_ends_the_check(ctx, dataset):
    judged: list[str] = []
    ctx.make_grader = lambda: CountingGrader(judged)
    run_id = submit(ctx)
    ctx.stopping.set()
    prepare.prepare_run(ctx, run_id)
    assert (len(judged), run_of(ctx, run_id).state) == (1, RunState.QUEUED)
    ctx.stopping.clear()
    gate = threading.Event()
    ctx.make_grader = lambda: CountingGrader(judged, gate=gate)
    work = threading.Thread(target=prepare.prepare_run, args=(ctx, run_id))
    work.start()
    wait_for(lambda: _lease_until(ctx) is not None)
    service.cancel(ctx, run_id)
    gate.set()
    work.join(30)
    assert len(judged) == 2
    assert (job_of(ctx).state, len(job_of(ctx).cursor["judged"])) == (BackgroundJobState.CANCELLED, 2)
