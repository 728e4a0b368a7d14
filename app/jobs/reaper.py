"""Recovers lost work: expired leases, lost messages, runs whose only worker is gone. Two may run at once."""

from __future__ import annotations

import datetime as dt
import math
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import structlog
from sqlalchemy import ColumnElement, or_, select, true, update
from sqlalchemy.orm import Session

from app.background import jobs as background
from app.background.leases import MAX_ATTEMPTS, has_expired, take_back
from app.core.broker import queues
from app.core.broker.broker import Message
from app.core.context import Context
from app.core.db.clock import build_database_time
from app.core.db.database import call_after_commit, execute_change, log_failure
from app.core.db.threads import RepeatingThread
from app.core.db.types import get_utc_time
from app.core.settings import RETENTION_INTERVAL_S
from app.core.states import OPEN_RUN_STATES, OPEN_TASK_STATES, Failure, RunState, TaskState, WorkStep
from app.datasets.models import Task
from app.jobs import retention
from app.jobs.work.live_updates import publish_task_change
from app.runs import enqueue, transitions
from app.runs.models import Run, RunTask
from app.runs.policy import build_waiting_condition, find_policy, list_policies
from app.workers.models import Worker
from app.workers.service import compute_silence_limit

_LOST = f"{Failure.WORKER_LOST}: the worker stopped answering {MAX_ATTEMPTS} times in a row"
LOADING_LOST = f"{_LOST} while it loaded the model: is its memory enough?"
FIRST_LOST = f"{_LOST} before it decoded a first task: see its log"
DECODING_LOST = f"{_LOST} while it decoded this task"
GRADING_LOST = f"{_LOST} while it graded this task"
MAX_SENT = 500  # messages sent again in one sweep to an empty queue
MAX_SENT_BESIDE = 20  # and to one in which messages wait
PATIENCE = 10  # times longer a job waits for its message while others are in its queue
OWNER_GONE = "the process that worked on this run has gone"
WORKING = tuple(step.working for step in WorkStep)
T = TypeVar("T")
log = structlog.get_logger(__name__)


def describe_loss(session: Session, row: RunTask, run: Run, step: WorkStep) -> str:
    """The error of a job that lost its last worker.

    A worker reports itself before it loads a model (decode_job.prepare_engine), and a run has a time of start once its
    first task is begun.
    """
    if step is WorkStep.GRADE:
        return GRADING_LOST
    worker = session.get(Worker, row.claimed_by) if row.claimed_by else None
    if worker is not None and worker.loading == run.target:
        return LOADING_LOST
    return FIRST_LOST if run.started_at is None else DECODING_LOST


def reap(ctx: Context, *, pinned_only: bool = False) -> None:
    """One sweep. `pinned_only` is for `bassline eval`, which touches no runs but those pinned to its process."""
    ours: ColumnElement[bool] = Run.pinned_worker == ctx.worker_name
    if not pinned_only:
        ours = or_(ours, Run.pinned_worker.is_(None))
        background.resend_messages(ctx, compute_silence_limit(ctx))
        recover_each(_find_abandoned_runs(ctx), lambda run_id: transitions.interrupt(ctx, run_id, OWNER_GONE))
    _return_expired(ctx, ours)
    background.return_expired(ctx)
    # Their worker died before it closed them.
    recover_each(_find_runs_without_open_tasks(ctx, ours), lambda run_id: transitions.close_if_done(ctx, run_id))
    recover_each(list_policies(), lambda policy: policy.recover(ctx, ours))
    _resend_messages(ctx, ours)


def make_reaper_thread(ctx: Context, *, pinned_only: bool = False) -> RepeatingThread:
    """The thread that sweeps at once, for what the last process left, then at intervals.

    It deletes old data too, unless it is `pinned_only`. It has no other work, so no long job keeps lost ones waiting.
    """
    deleted_at = -math.inf

    def sweep() -> float | None:
        nonlocal deleted_at
        if ctx.stopping.is_set():
            return None
        reap(ctx, pinned_only=pinned_only)
        if not pinned_only and time.monotonic() - deleted_at > RETENTION_INTERVAL_S:
            retention.delete_expired(ctx)
            deleted_at = time.monotonic()
        return ctx.settings.reap_interval_s

    return RepeatingThread("reaper", sweep, retry_s=ctx.settings.reap_interval_s)


def enqueue_handed_over(ctx: Context) -> None:
    """Enqueues runs that another process stored for this one: they share the database, but no broker."""
    with ctx.database.read() as session:
        run_ids = session.scalars(
            select(Run.id).where(Run.state == RunState.QUEUED, Run.enqueued_at.is_(None), Run.pinned_worker.is_(None))
        ).all()
    for run_id in run_ids:
        with ctx.database.session() as session:
            unsent = update(Run).where(Run.id == run_id, Run.enqueued_at.is_(None))
            if execute_change(session, unsent.values(enqueued_at=get_utc_time())):
                call_after_commit(session, enqueue.enqueue_preparation, ctx, run_id)


def reset_orphans(ctx: Context) -> None:
    """Takes back all work, at the start of the one process that owns the database: nobody else can be working.

    What was pinned to a process that has gone is interrupted.
    """
    with ctx.database.session() as session:
        session.execute(update(RunTask).where(RunTask.state.in_(WORKING)).values(lease_until=get_utc_time()))
    background.return_jobs_of_dead_processes(ctx)
    _return_expired(ctx, true())
    recover_each(_find_runs_without_open_tasks(ctx, true()), lambda run_id: transitions.close_if_done(ctx, run_id))
    recover_each(_find_pinned_runs(ctx), lambda run_id: transitions.interrupt(ctx, run_id, OWNER_GONE))
    with ctx.database.session() as session:
        session.execute(
            update(Run)
            .where(Run.state.in_(OPEN_RUN_STATES), Run.cancel_requested_at.is_(None))
            .values(state=RunState.QUEUED, enqueued_at=None)
        )


def recover_each(found: Iterable[T], action: Callable[[T], object]) -> None:
    """Calls `action` with each, such as the id of a run: an error with one must not keep it from the others."""
    for one in found:
        try:
            action(one)
        except Exception as error:
            log_failure("could not be recovered", error, what=str(one))


def _find_pinned_runs(ctx: Context) -> Sequence[uuid.UUID]:
    with ctx.database.read() as session:
        return session.scalars(
            select(Run.id).where(Run.state.in_(OPEN_RUN_STATES), Run.pinned_worker.is_not(None))
        ).all()


def _find_abandoned_runs(ctx: Context) -> Sequence[uuid.UUID]:
    """Runs pinned to a worker process that is gone."""
    with ctx.database.read() as session:
        silent_since = build_database_time(session, -compute_silence_limit(ctx).total_seconds())
        recent = (Worker.name == Run.pinned_worker, Worker.last_seen_at >= silent_since)
        alive = select(Worker.name).where(*recent).exists()
        return session.scalars(
            select(Run.id).where(
                Run.state.in_(OPEN_RUN_STATES),
                Run.pinned_worker.is_not(None),
                Run.pinned_worker != ctx.worker_name,
                ~alive,
            )
        ).all()


def _find_runs_without_open_tasks(ctx: Context, ours: ColumnElement[bool]) -> Sequence[uuid.UUID]:
    some_open = select(RunTask.id).where(RunTask.run_id == Run.id, RunTask.state.in_(OPEN_TASK_STATES)).exists()
    with ctx.database.read() as session:
        return session.scalars(select(Run.id).where(Run.state == RunState.RUNNING, ours, ~some_open)).all()


def return_expired_of_run(ctx: Context, run_id: uuid.UUID) -> None:
    """Returns the expired jobs of a run to their queue at once, for a user who cannot wait for a sweep."""
    _return_expired(ctx, Run.id == run_id)
    unsent = (RunTask.run_id == run_id, RunTask.state == TaskState.QUEUED, RunTask.enqueued_at.is_(None))
    with ctx.database.read() as session:
        ids = session.scalars(select(RunTask.id).join(RunTask.run).where(*unsent, Run.state == RunState.RUNNING)).all()
        policy = find_policy(session, run_id) if ids else None
    if policy is not None:
        with ctx.database.session() as session:
            session.execute(update(RunTask).where(RunTask.id.in_(ids)).values(enqueued_at=get_utc_time()))
            call_after_commit(session, policy.send_messages, ctx, run_id, WorkStep.DECODE, ids)


def _return_expired(ctx: Context, ours: ColumnElement[bool]) -> None:
    """Returns expired jobs to their queue; after a third attempt, or of a cancelled run, they end."""
    now = get_utc_time()
    with ctx.database.read() as session:
        expired = session.execute(
            select(RunTask, Run, Task.task_id)
            .join(RunTask.run)
            .join(RunTask.task)
            .where(RunTask.state.in_(WORKING), has_expired(session, RunTask), ours)
        ).all()
    if not expired:
        return
    with ctx.database.session() as session:
        lost = {
            run.id: error
            for row, run, task_id in expired
            if (error := _return_expired_job(ctx, session, row, run, task_id, now)) is not None
        }
    # None of their tasks was ever begun: the next one would only cost three more workers.
    recover_each(lost, lambda run_id: transitions.fail_run(ctx, run_id, Failure.WORKER_LOST, lost[run_id]))


def _return_expired_job(
    ctx: Context, session: Session, row: RunTask, run: Run, task_id: str, now: dt.datetime
) -> str | None:
    """Releases one expired job. Returns its error if its workers died before the run began decoding."""
    step = next(step for step in WorkStep if step.working == row.state)
    state, error, failure, finished_at = step.waiting, row.error, row.failure, None
    if run.cancel_requested_at is not None:
        state, finished_at = TaskState.CANCELLED, now
    elif row.attempt >= MAX_ATTEMPTS:
        state, failure, finished_at = TaskState.FAILED, Failure.WORKER_LOST, now
        error = describe_loss(session, row, run, step)
    values = {"error": error, "failure": failure, "enqueued_at": None, "started_at": None, "finished_at": finished_at}
    if not take_back(session, row, state=state, **values):
        return None
    log.warning("lease expired", run_task=str(row.id), attempt=row.attempt, now=str(state))
    call_after_commit(session, publish_task_change, ctx, run.id, task_id, row.position, state, error)
    return error if state is TaskState.FAILED and step is WorkStep.DECODE and run.started_at is None else None


def _resend_messages(ctx: Context, ours: ColumnElement[bool]) -> None:
    """Sends messages that may be lost again, for the longest waiting first.

    While messages wait in a queue, the message of a waiting job is probably among them. An empty queue beside waiting
    jobs proves a loss.
    """
    for queue in queues.ALL:
        n_messages = ctx.broker.count_messages(queue)
        if n_messages is None:
            return  # the broker is unreachable
        limit = MAX_SENT_BESIDE if n_messages else MAX_SENT
        before = get_utc_time() - compute_silence_limit(ctx) * (PATIENCE if n_messages else 1)
        runs, jobs = _find_unsent(ctx, ours, before, queue, limit)
        if not runs and not jobs:
            continue
        task = queues.GRADE_TASK if queue in queues.SANDBOX else queues.DECODE_TASK
        messages: list[Message] = [*((queues.PREPARE_RUN, run_id) for run_id in runs), *((task, job) for job in jobs)]
        with ctx.database.session() as session:
            for table, ids in ((Run, runs), (RunTask, jobs)):
                session.execute(update(table).where(table.id.in_(ids)).values(enqueued_at=get_utc_time()))
            call_after_commit(session, ctx.broker.send, messages, queue)


def _find_unsent(
    ctx: Context,
    ours: ColumnElement[bool],
    before: dt.datetime,
    queue: str,
    limit: int,
) -> tuple[Sequence[uuid.UUID], Sequence[uuid.UUID]]:
    """(runs, jobs) that wait for a message in this queue and were last sent one before a time."""
    runs: Sequence[uuid.UUID] = ()
    with ctx.database.read() as session:
        if queue == queues.EXEC_INTERACTIVE:
            unsent = or_(Run.enqueued_at.is_(None), Run.enqueued_at < before)
            runs = session.scalars(select(Run.id).where(Run.state == RunState.QUEUED, ours, unsent)).all()
        jobs = session.scalars(
            select(RunTask.id)
            .join(RunTask.run)
            .where(
                Run.state == RunState.RUNNING,
                ours,
                build_waiting_condition(queue),
                or_(RunTask.enqueued_at.is_(None), RunTask.enqueued_at < before),
            )
            .order_by(RunTask.run_id, RunTask.position)
            .limit(limit)
        ).all()
    return runs, jobs
