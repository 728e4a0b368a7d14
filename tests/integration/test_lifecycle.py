"""Jobs under contention and after deaths: one owner at a time, no write from a former owner, and every run ends."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import threading
import uuid
from collections.abc import Callable

import pytest
from sqlalchemy import select, update
from sqlalchemy.exc import OperationalError

from app.background.leases import MAX_ATTEMPTS, LostClaimError, StopReason
from app.core.broker import queues
from app.core.db.database import call_after_commit
from app.core.db.types import get_utc_time
from app.core.errors import BasslineError, UnavailableError
from app.core.states import DatasetKind, Failure, RunState, TaskState, WorkStep
from app.datasets import service as datasets
from app.jobs import claims, reaper
from app.jobs.job import CannotLoadError, Job, WorkStoppedError
from app.jobs.reaper import LOADED_LOST, LOADING_LOST, UNKNOWN_LOST
from app.jobs.work import grade, prepare
from app.jobs.work.decode import decode_task
from app.runs import enqueue, service, transitions
from app.runs.models import Run, RunTask
from app.runs.repository import get_run, load_tasks_with_samples
from app.runs.schemas import RunSpec
from app.workers.models import Worker
from app.workers.service import compute_silence_limit
from decoding.request import RequestError
from evaluation.datasets import Dataset, Task
from evaluation.prompting import PromptError
from tests.fakes import RIGHT, FakeEngine, FakeGrader, RecordingBroker
from tests.integration.conftest import sqlite_when_thorough
from tests.integration.waiting import wait_for

pytestmark = [pytest.mark.slow, sqlite_when_thorough]

N_TASKS = 20


@pytest.fixture(autouse=True)
def broker(ctx) -> RecordingBroker:
    """No worker takes these messages: the tests call the steps themselves."""
    ctx.broker = RecordingBroker()
    return ctx.broker


@pytest.fixture
def run_id(ctx) -> uuid.UUID:
    """A running run of N_TASKS tasks."""
    tasks = tuple(
        Task(f"add/{i}", "def add(a, b):\n", "add", "def check(candidate): ...", RIGHT) for i in range(N_TASKS)
    )
    datasets.store_dataset(ctx, Dataset("additions", tasks, "f" * 64), DatasetKind.IMPORTED)
    found = service.submit(ctx, RunSpec(target="smollm2-135m", dataset="additions", n=2))
    prepare.prepare_run(ctx, found)
    return found


def job_ids(ctx, run_id) -> list[uuid.UUID]:
    with ctx.database.read() as session:
        return list(session.scalars(select(RunTask.id).where(RunTask.run_id == run_id).order_by(RunTask.position)))


def job(ctx, job_id) -> RunTask:
    with ctx.database.read() as session:
        return session.get_one(RunTask, job_id)


def expire(ctx, job_id) -> None:
    with ctx.database.session() as session:
        session.execute(
            update(RunTask).where(RunTask.id == job_id).values(lease_until=get_utc_time() - dt.timedelta(seconds=1))
        )


def die_three_times(ctx, job_id) -> None:
    for _ in range(3):
        assert claims.claim_job(ctx, job_id, WorkStep.DECODE)
        expire(ctx, job_id)
        reaper.reap(ctx)


def test_of_many_claims_exactly_one_wins(ctx, run_id):
    won: list[uuid.UUID] = []

    def grab():
        won.extend(i for i in job_ids(ctx, run_id) if claims.claim_job(ctx, i, WorkStep.DECODE))

    threads = [threading.Thread(target=grab) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == sorted(job_ids(ctx, run_id))


def test_a_former_owner_can_write_nothing(ctx, run_id):
    first_job = job_ids(ctx, run_id)[0]
    old = claims.claim_job(ctx, first_job, WorkStep.DECODE)
    expire(ctx, first_job)
    reaper.reap(ctx)
    new = claims.claim_job(ctx, first_job, WorkStep.DECODE)
    assert new.attempt == 2
    with pytest.raises(LostClaimError), ctx.database.session() as session:
        claims.release(session, old, TaskState.DECODED)
    assert job(ctx, first_job).fence == new.row_claim.fence


def test_a_job_whose_workers_die_three_times_fails_and_the_run_still_ends(ctx, run_id):
    doomed, first, *rest = job_ids(ctx, run_id)
    decode_task(ctx, first)
    die_three_times(ctx, doomed)
    assert job(ctx, doomed).state is TaskState.FAILED
    for job_id in (first, *rest):
        decode_task(ctx, job_id)
        grade.grade_task(ctx, job_id)
    with ctx.database.read() as session:
        run = get_run(session, run_id)
        assert run.state is RunState.FINISHED
        assert "worker_lost" in run.error
        assert (run.figures.tasks, run.figures.tasks_failed) == (N_TASKS - 1, 1)


@pytest.mark.parametrize(
    ("loading", "model", "said"),
    [
        ("smollm2-135m", None, LOADING_LOST),
        (None, "qwen2.5-coder-0.5b, smollm2-135m", LOADED_LOST),
        (None, None, UNKNOWN_LOST),
    ],
)
def test_a_model_that_kills_every_worker_fails_the_run_at_its_first_task(ctx, run_id, loading, model, said):
    """The error names what the last one was doing, as it reported itself."""
    with ctx.database.session() as session:
        session.add(Worker(name=ctx.worker_name, host="here", pid=1, loading=loading, model=model))
    die_three_times(ctx, job_ids(ctx, run_id)[0])
    with ctx.database.read() as session:
        run = get_run(session, run_id)
        assert (run.state, run.error) == (RunState.FAILED, said)


def test_a_worker_reports_itself_before_and_after_it_loads_a_model(ctx, run_id):
    seen = []

    def load(_config, _on_progress):
        with ctx.database.read() as session:
            seen.append(session.get_one(Worker, ctx.worker_name).loading)
        return FakeEngine()

    ctx.load_engine = load
    decode_task(ctx, job_ids(ctx, run_id)[0])
    with ctx.database.read() as session:
        worker = session.get_one(Worker, ctx.worker_name)
    assert seen == ["smollm2-135m"]
    assert (worker.loading, worker.model) == (None, "smollm2-135m")


def test_no_end_is_earlier_than_its_start_when_a_clock_is_set_back(ctx, run_id, monkeypatch):
    first, *rest = job_ids(ctx, run_id)
    decode_task(ctx, first)
    for module in ("app.jobs.job", "app.jobs.work.grade", "app.jobs.work.decode_job", "app.runs.transitions"):
        monkeypatch.setattr(f"{module}.get_utc_time", lambda: get_utc_time() - dt.timedelta(hours=1))
    grade.grade_task(ctx, first)
    decode_task(ctx, rest[0])
    service.cancel(ctx, run_id)
    with ctx.database.read() as session:
        run, tasks = get_run(session, run_id), load_tasks_with_samples(session, run_id)
    assert run.finished_at >= run.started_at
    assert all(task.finished_at >= task.started_at for task in tasks if task.started_at and task.finished_at)
    assert all(task.queue_s >= 0 for task in tasks if task.queue_s is not None)


@pytest.mark.parametrize("hours", [-2, 2])
def test_leases_outlast_a_jump_of_one_hosts_clock(ctx, run_id, monkeypatch, hours):
    """PostgreSQL's clock decides; over SQLite there is one host."""
    if ctx.database.is_sqlite:
        pytest.skip("one host, one clock")
    first = job_ids(ctx, run_id)[0]
    jumped = get_utc_time() + dt.timedelta(hours=hours)
    for module in ("app.jobs.claims", "app.jobs.reaper", "app.core.db.clock"):
        monkeypatch.setattr(f"{module}.get_utc_time", lambda: jumped)
    claim = claims.claim_job(ctx, first, WorkStep.DECODE)
    reaper.reap(ctx)
    assert job(ctx, first).fence == claim.row_claim.fence
    left_s = (job(ctx, first).lease_until - dt.datetime.now(dt.UTC)).total_seconds()
    assert 0 < left_s <= ctx.settings.lease_s


def test_of_many_resumes_exactly_one_is_accepted(ctx, run_id):
    for _ in range(10):
        service.cancel(ctx, run_id)
        assert together(8, lambda: service.resume(ctx, run_id)) == ["ConflictError"] * 7 + ["accepted"]


def test_a_run_is_resumed_or_deleted_but_not_both(ctx, run_id):
    service.cancel(ctx, run_id)
    actions = itertools.cycle([service.resume, service.delete])
    assert together(6, lambda: next(actions)(ctx, run_id)).count("accepted") == 1


def together(n: int, action: Callable[[], object]) -> list[str]:
    """What became of `n` calls at the same moment, in alphabetical order of errors."""
    barrier, outcomes = threading.Barrier(n), []

    def call() -> None:
        barrier.wait(30)
        try:
            action()
            outcomes.append("accepted")
        except BasslineError as error:
            outcomes.append(type(error).__name__)

    threads = [threading.Thread(target=call) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return sorted(outcomes)


def test_figures_are_computed_while_others_write_and_again_after_a_change(ctx, run_id, monkeypatch):
    ids = job_ids(ctx, run_id)
    for job_id in ids[:2]:
        decode_task(ctx, job_id)
    grade.grade_task(ctx, ids[0])
    measure, calls = transitions.figures.compute_measurement, []

    def measured(session, run):
        found = measure(session, run)
        calls.append(1)
        if len(calls) == 1:
            grade.grade_task(ctx, ids[1])  # a writer that would wait for a transaction that holds the lock
        return found

    monkeypatch.setattr(transitions.figures, "compute_measurement", measured)
    assert transitions.interrupt(ctx, run_id)
    with ctx.database.read() as session:
        run = get_run(session, run_id)
    assert (run.state, run.figures.tasks, len(calls)) == (RunState.INTERRUPTED, 2, 2)


def test_a_resumed_run_keeps_its_comparison_and_is_deleted_with_the_baseline(ctx, run_id):
    plain = service.submit(ctx, RunSpec(target="smollm2-135m", dataset="additions", n=2), is_reference=True)
    service.cancel(ctx, plain)
    first, *rest = job_ids(ctx, run_id)
    decode_task(ctx, first)
    grade.grade_task(ctx, first)
    service.cancel(ctx, run_id)
    with ctx.database.session() as session:
        run = get_run(session, run_id)
        note = {"plain_run": str(plain), "speedup_over_plain": 1.5, "speedup_tasks": 1}
        run.figures = run.measured.model_copy(update=note)
    service.resume(ctx, run_id)
    prepare.prepare_run(ctx, run_id)
    for job_id in rest:
        decode_task(ctx, job_id)
        grade.grade_task(ctx, job_id)
    with ctx.database.read() as session:
        figures = get_run(session, run_id).figures
    assert figures.tasks == N_TASKS
    assert (figures.plain_run, figures.speedup_over_plain, figures.speedup_tasks) == (str(plain), 1.5, 1)
    service.delete(ctx, run_id)
    with ctx.database.read() as session:
        assert session.scalars(select(Run.id)).all() == []


def test_a_job_of_a_cancelled_run_whose_worker_died_ends_with_the_run(ctx, run_id):
    first = job_ids(ctx, run_id)[0]
    assert claims.claim_job(ctx, first, WorkStep.DECODE)
    service.cancel(ctx, run_id)
    expire(ctx, first)
    reaper.reap(ctx)
    assert job(ctx, first).state is TaskState.CANCELLED
    with ctx.database.read() as session:
        assert get_run(session, run_id).state is RunState.CANCELLED


def test_a_run_that_cannot_be_closed_keeps_no_other_from_it(ctx, run_id, monkeypatch):
    other = service.submit(ctx, RunSpec(target="smollm2-135m", dataset="additions", n=2))
    prepare.prepare_run(ctx, other)
    with ctx.database.session() as session:
        session.execute(update(RunTask).values(state=TaskState.FINISHED))
    measure = transitions.figures.compute_measurement

    def broken(session, run):
        if run.id == run_id:
            raise ArithmeticError("no figures")
        return measure(session, run)

    monkeypatch.setattr(transitions.figures, "compute_measurement", broken)
    reaper.reap(ctx)
    with ctx.database.read() as session:
        assert get_run(session, other).state is RunState.FINISHED
        assert get_run(session, run_id).state is RunState.RUNNING


class Broken(FakeGrader):
    """Raises `error` for the answers of a model."""

    error: Exception

    def judge_many(self, items, workers):
        raise self.error


FAULT = OSError("no room in /tmp")
SANDBOX_GONE = UnavailableError("no sandbox on this machine")


@pytest.mark.parametrize(
    ("error", "state", "attempt", "failure", "of_run"),
    [
        (FAULT, TaskState.QUEUED, 1, Failure.DECODING, (RunState.RUNNING, None)),
        (RequestError("the prompt is too long"), TaskState.FAILED, 1, Failure.REQUEST, (RunState.RUNNING, None)),
        (PromptError("no chat template"), TaskState.FAILED, 1, Failure.REQUEST, (RunState.RUNNING, None)),
        (CannotLoadError("no such model"), TaskState.QUEUED, 0, None, (RunState.FAILED, Failure.MODEL)),
        (WorkStoppedError(), TaskState.QUEUED, 0, None, (RunState.RUNNING, None)),
        (LostClaimError(), TaskState.DECODING, 1, None, (RunState.RUNNING, None)),
    ],
)
def test_what_an_exception_makes_of_a_job_and_its_run(ctx, run_id, broker, error, state, attempt, failure, of_run):
    first = job_ids(ctx, run_id)[0]
    broker.sent.clear()
    with Job(ctx, claims.claim_job(ctx, first, WorkStep.DECODE)):
        raise error
    row = job(ctx, first)
    assert (row.state, row.attempt, row.failure) == (state, attempt, failure)
    assert (row.error is None) == (failure is None)
    assert (row.fence is None) == (row.lease_until is None) == (state is not TaskState.DECODING)
    assert broker.sent == ([(queues.DECODE_TASK, first)] if error is FAULT else [])
    with ctx.database.read() as session:
        run = get_run(session, run_id)
        assert (run.state, run.failure) == of_run


def test_a_fault_of_the_engine_at_the_last_attempt_fails_the_job_and_says_whose_fault_it_is(ctx, run_id):
    first = job_ids(ctx, run_id)[0]
    for _ in range(MAX_ATTEMPTS):
        with Job(ctx, claims.claim_job(ctx, first, WorkStep.DECODE)):
            raise FAULT
    row = job(ctx, first)
    assert (row.state, row.failure) == (TaskState.FAILED, Failure.DECODING)
    assert row.error == "decoding failed: OSError: no room in /tmp"


def test_a_grade_step_that_fails_is_done_again_and_its_error_is_forgotten(ctx, run_id, broker):
    first = job_ids(ctx, run_id)[0]
    decode_task(ctx, first)
    Broken.error, ctx.make_grader = FAULT, Broken
    broker.sent.clear()
    grade.grade_task(ctx, first)
    row = job(ctx, first)
    assert (row.state, row.failure) == (TaskState.DECODED, Failure.GRADING)
    assert row.error == "grading failed: OSError: no room in /tmp"
    assert broker.sent == [(queues.GRADE_TASK, first)]
    ctx.make_grader = FakeGrader
    grade.grade_task(ctx, first)
    row = job(ctx, first)
    assert (row.state, row.error, row.failure) == (TaskState.FINISHED, None, None)


def test_a_sandbox_that_goes_away_interrupts_the_run_and_costs_no_attempt(ctx, run_id):
    first = job_ids(ctx, run_id)[0]
    decode_task(ctx, first)
    Broken.error, ctx.make_grader = SANDBOX_GONE, Broken
    grade.grade_task(ctx, first)
    row = job(ctx, first)
    assert (row.state, row.attempt, row.error) == (TaskState.DECODED, 0, None)
    with ctx.database.read() as session:
        run = get_run(session, run_id)
        assert (run.state, run.error, run.failure) == (RunState.INTERRUPTED, "no sandbox on this machine", None)


def test_a_message_is_sent_once_others_can_read_its_row(ctx, run_id, broker):
    seen: list[TaskState | RunState] = []

    def send(messages, queue):
        for task, row_id in messages:
            with ctx.database.read() as session:
                seen.append(session.get_one(Run if task == queues.PREPARE_RUN else RunTask, row_id).state)

    broker.send = send
    other = service.submit(ctx, RunSpec(target="smollm2-135m", dataset="additions", n=2, limit=1))
    prepare.prepare_run(ctx, other)
    decode_task(ctx, job_ids(ctx, other)[0])
    assert seen == [RunState.QUEUED, TaskState.QUEUED, TaskState.DECODED]


def test_no_message_is_sent_for_what_is_rolled_back(ctx, run_id, broker):
    def roll_back():
        with ctx.database.session() as session:
            call_after_commit(session, enqueue.enqueue_preparation, ctx, run_id)
            raise ArithmeticError

    broker.sent.clear()
    with pytest.raises(ArithmeticError):
        roll_back()
    assert broker.sent == []


def test_a_worker_that_could_not_prove_that_it_lives_stores_nothing(ctx, run_id):
    held = claims.claim_job(ctx, job_ids(ctx, run_id)[0], WorkStep.DECODE)
    ctx.settings = ctx.settings.model_copy(update={"lease_s": 0.2})
    lease = claims.make_lease(ctx, held)  # its heartbeat never ran, as if the process had been stopped
    wait_for(lambda: lease.stop_reason is StopReason.FENCED)
    with pytest.raises(LostClaimError):
        lease.store(lambda: pytest.fail("stored"))


def test_storing_waits_for_a_database_that_is_away(ctx, run_id):
    held = claims.claim_job(ctx, job_ids(ctx, run_id)[0], WorkStep.DECODE)
    faults = [OperationalError("INSERT", {}, Exception("the database system is shutting down"))]

    def write():
        if faults:
            raise faults.pop()
        with ctx.database.session() as session:
            claims.release(session, held, TaskState.DECODED)

    claims.make_lease(ctx, held).store(write)
    assert job(ctx, held.run_task_id).state is TaskState.DECODED


def test_a_text_that_the_database_cannot_hold_is_kept_but_for_that_character(ctx, run_id):
    engine = ctx.load_engine(None, None)
    make = engine._sample

    def with_nul(request, i, cancelled):
        sample = make(request, i, cancelled)
        sample.text = RIGHT + "# \0\n"
        return sample

    engine._sample = with_nul
    first = job_ids(ctx, run_id)[0]
    decode_task(ctx, first)
    grade.grade_task(ctx, first)
    with ctx.database.read() as session:
        row = next(t for t in load_tasks_with_samples(session, run_id) if t.id == first)
        assert [s.raw for s in row.samples] == [RIGHT + "# \N{SYMBOL FOR NULL}\N{VARIATION SELECTOR-15}\n"] * 2
        assert row.state is TaskState.FINISHED


def test_messages_that_come_twice_or_late_change_nothing(ctx, run_id):
    jobs = job_ids(ctx, run_id)
    for job_id in (*jobs, *jobs):
        decode_task(ctx, job_id)
        grade.grade_task(ctx, job_id)
    prepare.prepare_run(ctx, run_id)
    decode_task(ctx, uuid.uuid4())
    with ctx.database.read() as session:
        assert get_run(session, run_id).state is RunState.FINISHED
        assert [len(t.samples) for t in load_tasks_with_samples(session, run_id)] == [2] * N_TASKS


def test_a_lost_message_is_sent_again_once(ctx, run_id, broker):
    broker.drain()
    with ctx.database.session() as session:
        session.execute(update(RunTask).values(enqueued_at=get_utc_time() - dt.timedelta(minutes=5)))
    broker.sent.clear()
    reaper.reap(ctx)
    assert {row_id for _, row_id in broker.sent} == set(job_ids(ctx, run_id))
    broker.drain()
    broker.sent.clear()
    reaper.reap(ctx)
    assert broker.sent == []


def test_while_messages_wait_only_those_of_the_longest_waiting_jobs_are_sent_again(ctx, run_id, broker):
    assert broker.count_messages(queues.GPU_BATCH) == N_TASKS
    silence = compute_silence_limit(ctx)
    long_ago, lately = (get_utc_time() - reaper.PATIENCE * silence * times for times in (1.5, 0.5))
    first = job_ids(ctx, run_id)[0]
    with ctx.database.session() as session:
        session.execute(update(RunTask).values(enqueued_at=lately))
        session.execute(update(RunTask).where(RunTask.id == first).values(enqueued_at=long_ago))
    broker.sent.clear()
    reaper.reap(ctx)
    assert [row_id for _, row_id in broker.sent] == [first]


def test_looking_for_work_where_there_is_none_opens_no_write_transaction(ctx, run_id, monkeypatch):
    monkeypatch.setattr(ctx.database, "session", lambda: pytest.fail("opened one"))
    reaper.reap(ctx)
    reaper.enqueue_handed_over(ctx)
    transitions.close_if_done(ctx, run_id)


def test_a_run_whose_last_worker_died_before_closing_it_is_closed(ctx, run_id):
    with ctx.database.session() as session:
        session.execute(update(RunTask).values(state=TaskState.FINISHED))
    reaper.reap(ctx)
    with ctx.database.read() as session:
        assert get_run(session, run_id).state is RunState.FINISHED


def test_two_closers_close_a_run_once(ctx, run_id):
    with ctx.database.session() as session:
        session.execute(update(RunTask).values(state=TaskState.FINISHED))
    threads = [threading.Thread(target=transitions.close_if_done, args=(ctx, run_id)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events = [e for e in ctx.bus.read(run_id, "0-0", 0) if e.data.get("state") == RunState.FINISHED]
    assert len(events) == 1


def test_a_heartbeat_keeps_the_lease_and_notices_cancel_and_loss(ctx, run_id):
    first_job, second_job = job_ids(ctx, run_id)[:2]
    held = claims.claim_job(ctx, first_job, WorkStep.DECODE)
    before = job(ctx, first_job).lease_until
    with Job(ctx, held) as working:
        wait_for(lambda: job(ctx, first_job).lease_until > before)
        assert working.lease.stop_reason is None
        service.cancel(ctx, run_id)
        wait_for(lambda: working.lease.stop_reason is StopReason.CANCELLED)
    assert job(ctx, second_job).state is TaskState.CANCELLED
    stolen = dataclasses.replace(held, row_claim=dataclasses.replace(held.row_claim, fence=uuid.uuid4()))
    with ctx.database.session() as session:
        session.execute(update(Run).values(cancel_requested_at=None))
    with Job(ctx, stolen) as working:
        wait_for(lambda: working.lease.stop_reason is StopReason.FENCED)


def test_a_pinned_run_is_left_alone_by_others_and_interrupted_when_its_process_is_gone(ctx, run_id):
    with ctx.database.session() as session:
        session.execute(update(Run).values(pinned_worker="elsewhere:1"))
    assert claims.claim_job(ctx, job_ids(ctx, run_id)[0], WorkStep.DECODE) is None
    reaper.reap(ctx)
    with ctx.database.read() as session:
        assert get_run(session, run_id).state is RunState.INTERRUPTED
    service.resume(ctx, run_id)
    prepare.prepare_run(ctx, run_id)
    assert claims.claim_job(ctx, job_ids(ctx, run_id)[0], WorkStep.DECODE)
