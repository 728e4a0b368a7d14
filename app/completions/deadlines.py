"""The deadline of a completion: its clock starts when the service accepts it, and waiting counts.

The time that a worker needs to load the model does not count: that says nothing of the model's speed, and the
completions that waited for it start again. Code that waits for a completion calls `enforce_deadline` now and then, and
the reaper does for the others: workers may all be busy or lost when a budget ends.
"""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, and_, insert, or_, select, update
from sqlalchemy.orm import Session

from app.completions.models import CompletionRun
from app.core.context import Context
from app.core.db.clock import build_database_time, clamp_end_to_start, read_database_time
from app.core.db.database import call_after_commit, execute_change
from app.core.db.types import generate_id, get_utc_time
from app.core.states import OPEN_RUN_STATES, UNDECODED_TASK_STATES, Failure, RunState, TaskState
from app.jobs.work.live_updates import publish_task_change
from app.runs import transitions
from app.runs.models import Run, RunTask
from app.samples.models import Sample
from app.workers.models import Worker
from app.workers.service import compute_silence_limit

SILENT_S = 2.5  # once the budget is over, a worker silent for this long counts as lost
MIN_LEASE_S = 2.5
WORKER_LOST_ERROR = f"{Failure.WORKER_LOST}: the worker stopped answering, and the budget is over: ask again"


def compute_lease_s(ctx: Context, budget_s: float) -> float:
    """The lease of a completion that is decoded: if its worker is lost, another one has half of the budget left."""
    return min(max(budget_s / 2, MIN_LEASE_S), ctx.settings.lease_s)


def restart_clocks(ctx: Context, run_id: uuid.UUID, target: str) -> dt.datetime:
    """Starts the clocks of the completions that waited until this worker had loaded `target`. Returns when that was.

    They are the one that it has claimed (`run_id`), and those that wait for it. Completions that other workers decode
    did not wait for it, and while another worker has the model, no waiting one did.
    """
    now = get_utc_time()
    claimed = and_(RunTask.state == TaskState.DECODING, RunTask.claimed_by == ctx.worker_name, Run.id == run_id)
    with ctx.database.session() as session:
        waited = claimed
        if not _is_loaded_elsewhere(ctx, session, target):
            waited = or_(claimed, and_(build_waiting_condition(ctx), Run.target == target))
        jobs = select(RunTask.id).join(RunTask.run).where(Run.is_completion, waited)
        restarted = update(RunTask).where(RunTask.id.in_(jobs)).values(queued_at=now)
        session.execute(restarted, execution_options={"synchronize_session": False})
    return now


def build_waiting_condition(ctx: Context) -> ColumnElement[bool]:
    """Whether a task is one of a completion that waits to be decoded and that this worker may serve, as a condition
    over RunTask joined with Run. A worker that was asked to stop takes no more."""
    asked_to_stop = select(Worker.name).where(Worker.name == ctx.worker_name, Worker.stopped_at.is_not(None)).exists()
    return and_(
        ~asked_to_stop,
        RunTask.state == TaskState.QUEUED,
        Run.state == RunState.RUNNING,
        Run.is_completion,
        or_(Run.pinned_worker.is_(None), Run.pinned_worker == ctx.worker_name),
    )


def _is_loaded_elsewhere(ctx: Context, session: Session, target: str) -> bool:
    """Whether another live worker has the model in memory."""
    silent_since = build_database_time(session, -compute_silence_limit(ctx).total_seconds())
    alive = (Worker.name != ctx.worker_name, Worker.stopped_at.is_(None), Worker.last_seen_at >= silent_since)
    loads_it = Worker.loading.is_not_distinct_from(target)  # again, with other options, so it is not ready
    held = session.scalars(select(Worker.model).where(*alive, ~loads_it))
    return any(target in models.split(", ") for models in held if models)


def enforce_deadline(ctx: Context, run_id: uuid.UUID) -> float:
    """Answers a completion's jobs whose budget is over, if no worker is about to: without text, or with an error.

    A job that still waits ends as if a worker had begun it too late. Returns the seconds until it should be called
    again; infinity while no clock runs.
    """
    now = get_utc_time()
    with ctx.database.read() as session:
        rows = session.execute(
            select(RunTask, CompletionRun)
            .join(CompletionRun, CompletionRun.id == RunTask.run_id)
            .where(
                RunTask.run_id == run_id,
                RunTask.state.in_(UNDECODED_TASK_STATES),
                CompletionRun.state.in_(OPEN_RUN_STATES),
            )
        ).all()
        if not rows:
            return math.inf
        left_s = min(_compute_left_s(row, run, now) for row, run in rows)
        if left_s > 0:
            return left_s
        over = [(row, run) for row, run in rows if _compute_left_s(row, run, now) <= 0]
        target = over[0][1].target
        if _is_loading(session, target):
            is_elsewhere = _is_loaded_elsewhere(ctx, session, target)
            over = [(row, run) for row, run in over if not _waits_for_model(row, run, is_elsewhere)]
        beaten_since = read_database_time(session) - dt.timedelta(seconds=SILENT_S)
        abandoned = [(row, run) for row, run in over if not _is_worker_alive(ctx, row, run, beaten_since)]
    ended = [_end_job(ctx, row, run, now) for row, run in abandoned]
    if any(ended):
        transitions.close_if_done(ctx, run_id)
    return SILENT_S


def find_overdue(session: Session) -> Iterable[uuid.UUID]:
    """The open completions whose budget is over."""
    now = get_utc_time()
    rows = session.execute(
        select(RunTask.run_id, RunTask.queued_at, Run.budget_s)
        .join(RunTask.run)
        .where(Run.is_completion, Run.state.in_(OPEN_RUN_STATES), RunTask.state.in_(UNDECODED_TASK_STATES))
    )
    return {run_id for run_id, queued_at, budget_s in rows if queued_at + dt.timedelta(seconds=budget_s) < now}


def _compute_left_s(row: RunTask, run: CompletionRun, now: dt.datetime) -> float:
    if run.after_id is not None and run.state is RunState.QUEUED:
        return math.inf  # it waits for its turn; its clock has not begun
    return run.budget_s - (now - row.queued_at).total_seconds()


def _waits_for_model(row: RunTask, run: CompletionRun, is_loaded_elsewhere: bool) -> bool:
    """Whether a job waits while a worker loads its model: the one that the worker has claimed does, and so does the
    queue, unless another worker has the model."""
    return not is_loaded_elsewhere if row.state is TaskState.QUEUED else run.started_at is None


def _is_loading(session: Session, target: str) -> bool:
    """Whether a worker has claimed a first completion for the model and not begun to decode: it loads it.

    An evaluation that has not begun may wait for its turn on the CPU instead.
    """
    claimed = (
        RunTask.state == TaskState.DECODING,
        RunTask.lease_until > build_database_time(session),
        Run.is_completion,
    )
    query = select(RunTask.id).join(RunTask.run).where(*claimed, Run.target == target, Run.started_at.is_(None))
    return session.scalar(query.limit(1)) is not None


def _is_worker_alive(ctx: Context, row: RunTask, run: Run, beaten_since: dt.datetime) -> bool:
    """Whether the worker's last heartbeat came after `beaten_since`, by the database's clock: it will end the job."""
    if row.state is TaskState.QUEUED or row.lease_until is None:
        return False
    last_heartbeat = row.lease_until - dt.timedelta(seconds=compute_lease_s(ctx, run.budget_s))
    return last_heartbeat >= beaten_since


def _end_job(ctx: Context, row: RunTask, run: Run, now: dt.datetime) -> bool:
    """Finishes a job that no worker began in time, with empty samples, or fails one whose worker has stopped answering.

    False if its state or its fence are not as they were read: the worker or another caller was first.
    """
    is_waiting = row.state is TaskState.QUEUED
    waited_s = (now - row.queued_at).total_seconds()
    values: dict[str, Any]
    if is_waiting:
        state, error, values = TaskState.FINISHED, None, {"queue_s": waited_s, "wall_s": 0.0, "prefill_s": 0.0}
    else:
        state, error = TaskState.FAILED, WORKER_LOST_ERROR
        values = {"failure": Failure.WORKER_LOST, "error": error}
    released = {"fence": None, "lease_until": None, "finished_at": clamp_end_to_start(RunTask.started_at, now)}
    is_owned = RunTask.fence.is_not_distinct_from(row.fence)
    unchanged = update(RunTask).where(RunTask.id == row.id, RunTask.state == row.state, is_owned)
    with ctx.database.session() as session:
        if not execute_change(session, unchanged.values(state=state, **released, **values)):
            return False
        if is_waiting:
            session.execute(insert(Sample), [_build_empty_sample(row, run, i, waited_s) for i in range(run.n)])
            # Its tests could not be prepared in time; there is nothing to judge.
            waits = update(Run).where(Run.id == run.id, Run.state == RunState.QUEUED)
            session.execute(waits.values(state=RunState.RUNNING), execution_options={"synchronize_session": False})
        call_after_commit(session, publish_task_change, ctx, run.id, row.task.task_id, row.position, state, error)
    return True


def _build_empty_sample(row: RunTask, run: Run, index: int, finished_s: float) -> dict[str, object]:
    """A sample that was never begun."""
    return {
        "id": generate_id(),
        "run_id": run.id,
        "run_task_id": row.id,
        "index": index,
        "seed": run.seed,
        "raw": "",
        "n_tokens": 0,
        "finish_reason": "deadline",
        "finished_s": finished_s,
        "n_rounds": 0,
        "n_drafted": 0,
        "n_accepted": 0,
        "token_ids": [],
        "logprobs": [],
        "origins": "",
        "ends": [],
    }
