"""Checking a dataset's canonical solutions: one worker at a time, in steps that survive it."""

from __future__ import annotations

import dataclasses
import datetime as dt
import threading
from collections.abc import Iterator, Sequence

import pytest
from sqlalchemy import func, select, update

from app.broker import queues
from app.datasets import check_job, checking
from app.datasets import service as datasets
from app.datasets.check_job import HeldByOtherError, claim_check
from app.datasets.checking import check_for_a_while, check_solutions
from app.datasets.models import DatasetCheck, DatasetCheckJob
from app.db.types import utcnow
from app.jobs import reaper
from app.jobs.work import prepare
from app.runs import service
from app.runs.models import Run
from app.runs.repository import get_run
from app.runs.schemas import RunSpec
from app.states import DatasetKind, Failure, RunState
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
    return datasets.store(ctx, Dataset("additions", tasks, "f" * 64), DatasetKind.IMPORTED)


def submit(ctx):
    return service.submit(ctx, RunSpec(target="smollm2-135m", dataset="additions", n=2))


def run_of(ctx, run_id) -> Run:
    with ctx.database.read() as session:
        return get_run(session, run_id)


def kill_worker(ctx, dataset, judged: list[str], dies_at: str, monkeypatch) -> None:
    """Lets a worker stop before a solution without another word: its lease expires."""
    with monkeypatch.context() as patched:
        patched.setattr(check_job.CheckLease, "release", lambda _: None)  # a killed process releases nothing
        with pytest.raises(KilledError):
            check_for_a_while(ctx, dataset.id, CountingGrader(judged, dies_at))
    expire(ctx)


def expire(ctx) -> None:
    with ctx.database.session() as session:
        session.execute(update(DatasetCheckJob).values(lease_until=utcnow() - dt.timedelta(seconds=1)))


def test_two_workers_judge_each_solution_once(ctx, dataset):
    judged: list[str] = []
    gate = threading.Event()
    other = dataclasses.replace(ctx, worker_name="other:2")
    results = []
    first = threading.Thread(
        target=lambda: results.append(check_solutions(ctx, dataset.id, CountingGrader(judged, gate=gate)))
    )
    first.start()
    wait_for(lambda: _leases(ctx) == 1)
    with pytest.raises(HeldByOtherError):
        check_for_a_while(other, dataset.id, CountingGrader(judged))
    second = threading.Thread(target=lambda: results.append(check_solutions(other, dataset.id, CountingGrader(judged))))
    second.start()
    gate.set()
    for thread in (first, second):
        thread.join(30)
    assert results == [[BROKEN], [BROKEN]]
    assert sorted(judged) == sorted(f"add/{i}" for i in range(N_TASKS))
    assert _leases(ctx) == 0


def _leases(ctx) -> int:
    with ctx.database.read() as session:
        return session.scalar(select(func.count()).select_from(DatasetCheckJob))


def test_the_check_of_a_killed_worker_goes_on_where_it_was(ctx, dataset, monkeypatch):
    judged: list[str] = []
    kill_worker(ctx, dataset, judged, "add/7", monkeypatch)
    assert check_for_a_while(ctx, dataset.id, CountingGrader(judged)) == [BROKEN]
    assert judged == [f"add/{i}" for i in range(N_TASKS)]
    with ctx.database.read() as session:
        assert session.scalars(select(DatasetCheck.failed)).all() == [[BROKEN]]


def test_a_worker_that_lost_its_lease_stores_nothing(ctx, dataset):
    old = claim_check(ctx, dataset.id, FakeGrader.sandbox)
    expire(ctx)
    new = claim_check(ctx, dataset.id, FakeGrader.sandbox)
    old.progress.judged.add(5)
    for write in (old.store_step, old.release, lambda: old.finish([])):
        with pytest.raises(HeldByOtherError):
            write()
    new.progress.judged.add(0)
    new.store_step()
    expire(ctx)
    assert claim_check(ctx, dataset.id, FakeGrader.sandbox).progress.judged == {0}


def test_the_heartbeat_keeps_the_lease_during_one_long_solution(ctx, dataset):
    ctx.settings = ctx.settings.model_copy(update={"lease_s": 0.6, "heartbeat_s": 0.1})
    with claim_check(ctx, dataset.id, FakeGrader.sandbox) as lease:
        until = _lease_until(ctx)
        wait_for(lambda: _lease_until(ctx) > until + dt.timedelta(seconds=0.6))
        lease.require_held()
        with pytest.raises(HeldByOtherError):
            claim_check(ctx, dataset.id, FakeGrader.sandbox)


def _lease_until(ctx) -> dt.datetime:
    with ctx.database.read() as session:
        return session.scalar(select(DatasetCheckJob.lease_until))


def test_a_check_that_kills_its_workers_ends_the_run_with_a_sentence(ctx, dataset, monkeypatch):
    run_ids = [submit(ctx), submit(ctx)]
    for _ in range(4):  # the first of them stores steps before it dies
        assert run_of(ctx, run_ids[0]).state is RunState.QUEUED
        kill_worker(ctx, dataset, [], "add/7", monkeypatch)
    ctx.make_grader = lambda: CountingGrader([])
    prepare.prepare_run(ctx, run_ids[0])
    for run_id in run_ids:
        run = run_of(ctx, run_id)
        assert (run.state, run.failure) == (RunState.FAILED, Failure.WORKER_LOST)
        assert "3 workers in a row stopped while they checked the canonical solutions of additions" in run.error
        assert "7 of 12 are checked, the next is the one of add/7" in run.error
    again = submit(ctx)
    prepare.prepare_run(ctx, again)  # perhaps with more memory
    assert run_of(ctx, again).state is RunState.RUNNING


def test_runs_wait_for_the_worker_that_checks_their_dataset(ctx, dataset, broker):
    first, second = submit(ctx), submit(ctx)
    lease = claim_check(ctx, dataset.id, FakeGrader.sandbox)
    prepare.prepare_run(ctx, second)
    assert run_of(ctx, second).state is RunState.QUEUED
    lease.release()
    broker.sent.clear()
    prepare.prepare_run(ctx, first)
    assert (queues.PREPARE_RUN, second) in broker.sent
    prepare.prepare_run(ctx, second)
    assert {run_of(ctx, run_id).state for run_id in (first, second)} == {RunState.RUNNING}


def test_the_reaper_sends_the_message_of_a_run_whose_check_was_lost(ctx, dataset, broker):
    run_id = submit(ctx)
    claim_check(ctx, dataset.id, FakeGrader.sandbox)
    expire(ctx)
    broker.sent.clear()
    reaper.reap(ctx)
    assert broker.sent == [(queues.PREPARE_RUN, run_id)]
    claim_check(ctx, dataset.id, FakeGrader.sandbox)


def test_a_long_check_lets_other_work_of_its_worker_go_first(ctx, dataset, broker, monkeypatch):
    judged: list[str] = []
    ctx.make_grader = lambda: CountingGrader(judged)
    monkeypatch.setattr(prepare, "TURN_S", 0.0)
    run_id = submit(ctx)
    broker.drain()
    for n in range(1, N_TASKS):
        prepare.prepare_run(ctx, run_id)
        assert len(judged) == n
        assert broker.get([queues.EXEC], 0.0) == (queues.PREPARE_RUN, run_id)
    prepare.prepare_run(ctx, run_id)
    assert judged == [f"add/{i}" for i in range(N_TASKS)]
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
