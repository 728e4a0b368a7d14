"""Finds what got lost: expired leases, unheard doorbells, runs whose only worker is gone. Two may run at once."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Sequence

import structlog
from sqlalchemy import ColumnElement, or_, select, true, update

from app.broker import queues
from app.context import Context
from app.datasets.models import Task
from app.db.database import updated_any
from app.db.types import utcnow
from app.jobs.claims import MAX_ATTEMPTS, Step
from app.jobs.work.live_updates import task_changed
from app.runs import enqueue, transitions
from app.runs.models import Run, RunTask
from app.states import OPEN_RUN_STATES, OPEN_TASK_STATES, RunState, TaskState
from app.workers.models import Worker

SILENT_LEASES = 2  # a worker or a bell of which nothing was heard for so many leases is lost
RING_AT_MOST = 500
RING_BESIDES = 20
PATIENCE = 10
LOST = "worker_lost: "
WORKER_LOST = f"{LOST}the worker stopped answering three times while it had this task"
LOADING_LOST = f"{LOST}the worker stopped answering three times while it loaded the model: is its memory enough?"
GONE = "the process that worked this run has gone"
log = structlog.get_logger(__name__)


def reap(ctx: Context, *, pinned_only: bool = False) -> None:
    """One sweep. `pinned_only` looks at this process's own runs alone (`bassline eval` leaves others in peace)."""
    ours: ColumnElement[bool] = Run.pinned_worker == ctx.worker_name
    if not pinned_only:
        ours = or_(ours, Run.pinned_worker.is_(None))
        _each(_abandoned(ctx), lambda run_id: transitions.interrupt(ctx, run_id, GONE))
    _return_expired(ctx, ours)
    # The worker that should have closed these is gone.
    _each(_without_open_tasks(ctx, ours), lambda run_id: transitions.close_if_done(ctx, run_id))
    _ring_again(ctx, ours)


def ring_handed_over(ctx: Context) -> None:
    """Rings for runs that a process without workers has stored for this one, which shares its database alone."""
    with ctx.database.read() as session:
        found = session.scalars(
            select(Run.id).where(Run.state == RunState.QUEUED, Run.rung_at.is_(None), Run.pinned_worker.is_(None))
        ).all()
    for run_id in found:
        with ctx.database.session() as session:
            mine = updated_any(
                session, update(Run).where(Run.id == run_id, Run.rung_at.is_(None)).values(rung_at=utcnow())
            )
        if mine:
            enqueue.ring_prepare(run_id)


def reset_orphans(ctx: Context) -> None:
    """At the start of the one process that owns the database: nobody else can be working, so every lease is over."""
    with ctx.database.session() as session:
        working = [step.working for step in Step]
        session.execute(update(RunTask).where(RunTask.state.in_(working)).values(lease_until=utcnow()))
        session.execute(
            update(Run)
            .where(Run.state.in_(OPEN_RUN_STATES), Run.pinned_worker.is_not(None))
            .values(state=RunState.INTERRUPTED, error=GONE, finished_at=utcnow())
        )
        session.execute(
            update(Run)
            .where(Run.state.in_(OPEN_RUN_STATES), Run.cancel_requested_at.is_(None))
            .values(state=RunState.QUEUED, rung_at=None)
        )
    _return_expired(ctx, true())


def _each(runs: Sequence[uuid.UUID], end: Callable[[uuid.UUID], object]) -> None:
    """Ends every run it can: one that cannot be ended must not keep the others from it."""
    for run_id in runs:
        try:
            end(run_id)
        except Exception:
            log.exception("a run could not be ended", run=str(run_id))


def _abandoned(ctx: Context) -> Sequence[uuid.UUID]:
    """Runs pinned to a worker process that has gone."""
    gone = utcnow() - _silence(ctx)
    alive = select(Worker.name).where(Worker.name == Run.pinned_worker, Worker.last_seen_at >= gone).exists()
    with ctx.database.read() as session:
        return session.scalars(
            select(Run.id).where(
                Run.state.in_(OPEN_RUN_STATES),
                Run.pinned_worker.is_not(None),
                Run.pinned_worker != ctx.worker_name,
                ~alive,
            )
        ).all()


def _without_open_tasks(ctx: Context, ours: ColumnElement[bool]) -> Sequence[uuid.UUID]:
    some_open = select(RunTask.id).where(RunTask.run_id == Run.id, RunTask.state.in_(OPEN_TASK_STATES)).exists()
    with ctx.database.read() as session:
        return session.scalars(select(Run.id).where(Run.state == RunState.RUNNING, ours, ~some_open)).all()


def _return_expired(ctx: Context, ours: ColumnElement[bool]) -> None:
    """Expired jobs go back to waiting; they end if nobody wants them any more, or after the third attempt."""
    now = utcnow()
    told: list[tuple[uuid.UUID, str, int, TaskState, str | None]] = []
    unloadable: set[uuid.UUID] = set()
    with ctx.database.session() as session:
        expired = session.execute(
            select(RunTask, Run, Task.task_id)
            .join(RunTask.run)
            .join(RunTask.task)
            .where(RunTask.state.in_([step.working for step in Step]), RunTask.lease_until <= now, ours)
        ).all()
        for row, run, task_id in expired:
            step = next(step for step in Step if step.working == row.state)
            state, error = step.waiting, row.error
            if step is Step.DECODE and run.cancel_requested_at is not None:
                state = TaskState.CANCELLED
            elif row.attempt >= MAX_ATTEMPTS:
                state, error = TaskState.FAILED, WORKER_LOST
            finished_at = None if state is step.waiting else now
            if updated_any(
                session,
                update(RunTask)
                .where(RunTask.id == row.id, RunTask.attempt_token == row.attempt_token, RunTask.lease_until <= now)
                .values(
                    state=state,
                    error=error,
                    attempt_token=None,
                    lease_until=None,
                    rung_at=None,
                    started_at=None,
                    finished_at=finished_at,
                ),
            ):
                log.warning("lease expired", run_task=str(row.id), attempt=row.attempt, now=str(state))
                told.append((run.id, task_id, row.position, state, error))
                if error is WORKER_LOST and step is Step.DECODE and run.started_at is None:
                    unloadable.add(run.id)
    for change in told:
        task_changed(ctx, *change)
    # No task of these was ever decoded: the next one would only cost three more workers.
    _each(list(unloadable), lambda run_id: transitions.fail_run(ctx, run_id, LOADING_LOST))


def _ring_again(ctx: Context, ours: ColumnElement[bool]) -> None:
    """Rings for those whose message may be lost, the longest waiting first.

    While messages wait in a queue, theirs are probably among them; an empty queue beside waiting rows proves a loss.
    """
    for queue in queues.ALL:
        n_messages = enqueue.messages(queue)
        if n_messages is None:
            return  # the broker is away
        limit = RING_BESIDES if n_messages else RING_AT_MOST
        before = utcnow() - _silence(ctx) * (PATIENCE if n_messages else 1)
        enqueue.ring(_waiting(ctx, ours, before, queue, limit), queue)


def _waiting(
    ctx: Context, ours: ColumnElement[bool], before: dt.datetime, queue: str, limit: int
) -> list[tuple[str, uuid.UUID]]:
    """(Celery task, row id) of what waits in this queue and was last rung for before a time, marked as rung now."""
    now = utcnow()
    with ctx.database.session() as session:
        runs: Sequence[Run] = ()
        if queue == queues.EXEC_INTERACTIVE:
            unheard = or_(Run.rung_at.is_(None), Run.rung_at < before)
            runs = session.scalars(select(Run).where(Run.state == RunState.QUEUED, ours, unheard)).all()
        tasks = session.scalars(
            select(RunTask)
            .join(RunTask.run)
            .where(
                Run.state == RunState.RUNNING,
                ours,
                enqueue.rings_in(queue),
                or_(RunTask.rung_at.is_(None), RunTask.rung_at < before),
            )
            .order_by(RunTask.run_id, RunTask.position)
            .limit(limit)
        ).all()
        for run in runs:
            run.rung_at = now
        for task in tasks:
            task.rung_at = now
    step = queues.DECODE_TASK if queue in queues.GPU else queues.GRADE_TASK
    return [*((queues.PREPARE_RUN, run.id) for run in runs), *((step, task.id) for task in tasks)]


def _silence(ctx: Context) -> dt.timedelta:
    return dt.timedelta(seconds=SILENT_LEASES * ctx.settings.lease_s)
