"""Finds what got lost: expired leases, unheard doorbells, runs whose only worker is gone. Two may run at once."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence

import structlog
from sqlalchemy import ColumnElement, or_, select, update

from app.context import Context
from app.db import utcnow
from app.runs import doorbell, ending
from app.runs.lifecycle import MAX_ATTEMPTS, Step, changed
from app.runs.models import Run, RunTask
from app.states import OPEN_RUN_STATES, OPEN_TASK_STATES, RunState, TaskState
from app.workers.models import Worker

RING_AGAIN_S = 60.0
RING_AT_MOST = 20
WORKER_GONE_S = 60.0
WORKER_LOST = "worker_lost: the worker stopped answering three times while it had this task"
log = structlog.get_logger(__name__)


def reap(ctx: Context, *, pinned_only: bool = False) -> None:
    """One sweep. `pinned_only` looks at this process's own runs alone (`bassline eval` leaves others in peace)."""
    ours: ColumnElement[bool] = Run.pinned_worker == ctx.worker_name
    if not pinned_only:
        ours = or_(ours, Run.pinned_worker.is_(None))
        interrupt_abandoned(ctx)
    _return_expired(ctx, ours)
    for run_id in _without_open_tasks(ctx, ours):
        ending.close_if_done(ctx, run_id)  # the worker that should have done it is gone
    _ring_again(ctx, ours)


def interrupt_abandoned(ctx: Context) -> None:
    """Runs pinned to a worker process that has gone are marked interrupted, so that they can be resumed."""
    gone = utcnow() - dt.timedelta(seconds=WORKER_GONE_S)
    alive = select(Worker.name).where(Worker.name == Run.pinned_worker, Worker.last_seen_at >= gone).exists()
    with ctx.database.read() as session:
        runs = session.scalars(
            select(Run.id).where(
                Run.state.in_(OPEN_RUN_STATES),
                Run.pinned_worker.is_not(None),
                Run.pinned_worker != ctx.worker_name,
                ~alive,
            )
        ).all()
    for run_id in runs:
        ending.interrupt(ctx, run_id, "the process that worked this run has gone")


def reset_orphans(ctx: Context) -> None:
    """At the start of the one process that owns the database: whatever was being worked on waits again."""
    with ctx.database.session() as session:
        for step in Step:
            session.execute(
                update(RunTask)
                .where(RunTask.state == step.working)
                .values(state=step.waiting, attempt_token=None, lease_until=None, worker=None, started_at=None)
            )
        session.execute(
            update(Run)
            .where(Run.state.in_(OPEN_RUN_STATES), Run.pinned_worker.is_not(None))
            .values(state=RunState.INTERRUPTED, error="the process that worked this run has gone", finished_at=utcnow())
        )
        session.execute(
            update(Run)
            .where(Run.state.in_(OPEN_RUN_STATES), Run.cancel_requested_at.is_(None))
            .values(state=RunState.QUEUED, rung_at=None)
        )


def _without_open_tasks(ctx: Context, ours: ColumnElement[bool]) -> Sequence[uuid.UUID]:
    some_open = select(RunTask.id).where(RunTask.run_id == Run.id, RunTask.state.in_(OPEN_TASK_STATES)).exists()
    with ctx.database.read() as session:
        return session.scalars(select(Run.id).where(Run.state == RunState.RUNNING, ours, ~some_open)).all()


def _return_expired(ctx: Context, ours: ColumnElement[bool]) -> None:
    """Expired jobs go back to waiting, or fail after the third attempt."""
    now = utcnow()
    with ctx.database.session() as session:
        expired = session.execute(
            select(RunTask.id, RunTask.state, RunTask.attempt, RunTask.attempt_token)
            .join(RunTask.run)
            .where(RunTask.state.in_([step.working for step in Step]), RunTask.lease_until < now, ours)
        ).all()
        for row_id, state, attempt, token in expired:
            values = {"state": TaskState.FAILED, "error": WORKER_LOST, "finished_at": now}
            if attempt < MAX_ATTEMPTS:
                waiting = next(step.waiting for step in Step if step.working == state)
                values = {"state": waiting, "rung_at": None, "started_at": None}
            if changed(
                session,
                update(RunTask)
                .where(RunTask.id == row_id, RunTask.attempt_token == token, RunTask.lease_until < now)
                .values(attempt_token=None, lease_until=None, **values),
            ):
                log.warning("lease expired", run_task=str(row_id), attempt=attempt, now=str(values["state"]))


def _ring_again(ctx: Context, ours: ColumnElement[bool]) -> None:
    """Rings for the longest waiting whose message may be lost; a few at a time, since most are merely waiting."""
    now = utcnow()
    before = now - dt.timedelta(seconds=RING_AGAIN_S)
    with ctx.database.session() as session:
        runs = session.scalars(
            select(Run).where(Run.state == RunState.QUEUED, ours, or_(Run.rung_at.is_(None), Run.rung_at < before))
        ).all()
        tasks = session.scalars(
            select(RunTask)
            .join(RunTask.run)
            .where(
                Run.state == RunState.RUNNING,
                ours,
                RunTask.state.in_([step.waiting for step in Step]),
                or_(RunTask.rung_at.is_(None), RunTask.rung_at < before),
            )
            .order_by(RunTask.run_id, RunTask.position)
            .limit(RING_AT_MOST)
        ).all()
        for run in runs:
            run.rung_at = now
        for task in tasks:
            task.rung_at = now
        decode = [(t.id, doorbell.gpu_queue(t.run.kind)) for t in tasks if t.state == TaskState.QUEUED]
        grade = [t.id for t in tasks if t.state == TaskState.DECODED]
    for run in runs:
        doorbell.ring_prepare(run.id)
    for run_task_id, queue in decode:
        doorbell.ring_decode([run_task_id], queue)
    doorbell.ring_grade(grade)
