"""The first step of a run: check the sandbox and the canonical solutions, then enqueue the tasks."""

from __future__ import annotations

import uuid

import structlog
from sqlalchemy import delete, func, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from app.context import Context
from app.datasets.models import Task
from app.datasets.service import failing_canonical
from app.db.database import after_commit, updated_any
from app.db.types import utcnow
from app.errors import BasslineError
from app.events import event_types
from app.ports import require_toolchains
from app.runs import transitions
from app.runs.models import Run, RunTask
from app.runs.policy import policy_of
from app.states import Failure, RunState, Step

CANONICAL_FAILS = "its canonical solution fails in this sandbox"
log = structlog.get_logger(__name__)


def prepare_run(ctx: Context, run_id: uuid.UUID) -> None:
    """Makes a queued run running and enqueues its tasks, once its policy says that it is ready. Safe to call twice; a
    run that cannot be graded fails."""
    with ctx.database.read() as session:
        run = session.get(Run, run_id)
        if run is None or run.state != RunState.QUEUED or run.pinned_worker not in (None, ctx.worker_name):
            return
        policy = policy_of(session, run_id)
        if not policy.is_ready(session, run):
            return
    try:
        toolchains = _toolchains(ctx, run)
        failing = _failing(ctx, run)
    except BasslineError as error:
        transitions.fail_run(ctx, run_id, Failure.DATASET, str(error))
        return
    except DBAPIError:
        raise  # the run stays queued, and the reaper enqueues it again
    except Exception as error:
        log.exception("preparing failed", run=str(run_id))
        transitions.fail_run(
            ctx, run_id, Failure.DATASET, f"the dataset cannot be checked: {type(error).__name__}: {error}"
        )
        return
    with ctx.database.session() as session:
        if not updated_any(
            session, update(Run).where(Run.id == run_id, Run.state == RunState.QUEUED).values(state=RunState.RUNNING)
        ):
            return
        run = session.get_one(Run, run_id)
        _exclude(run, failing, session)
        if toolchains:
            run.provenance = {**run.provenance, "toolchain": ", ".join(toolchains)}
        policy.on_prepare(session, run)
        after_commit(session, ctx.bus.publish, run_id, event_types.STATE, {"state": RunState.RUNNING, "error": None})
        for step, ids in _mark_enqueued(session, run_id).items():
            after_commit(session, policy.send, ctx, run_id, step, ids)
    transitions.close_if_done(ctx, run_id)
    policy.on_end(ctx, run_id)


def _failing(ctx: Context, run: Run) -> list[str]:
    """Ids of the dataset's tasks whose own solution fails here. Raises if what is graded cannot be graded here."""
    if not run.graded:
        return []
    grader = ctx.make_grader()
    return failing_canonical(ctx, run.dataset_id, grader) if run.dataset_id else []  # a prompt has no solution


def _toolchains(ctx: Context, run: Run) -> list[str]:
    """The toolchains that will judge the run. Raises UnavailableError where one is missing."""
    if not run.graded:
        return []
    with ctx.database.read() as session:
        query = select(Task.language).join(RunTask, RunTask.task_pk == Task.id).where(RunTask.run_id == run.id)
        return require_toolchains(session.scalars(query.distinct()))


def _exclude(run: Run, failing: list[str], session: Session) -> None:
    """Removes tasks that no model can pass from the run, and lists them in `excluded`."""
    if not failing:
        return
    bad = session.execute(
        select(RunTask.id, Task.task_id).join(RunTask.task).where(RunTask.run_id == run.id, Task.task_id.in_(failing))
    ).all()
    session.execute(delete(RunTask).where(RunTask.id.in_([row_id for row_id, _ in bad])))
    run.excluded = [*run.excluded, *({"task_id": task_id, "reason": CANONICAL_FAILS} for _, task_id in bad)]
    run.n_tasks = session.scalar(select(func.count()).where(RunTask.run_id == run.id)) or 0


def _mark_enqueued(session: Session, run_id: uuid.UUID) -> dict[Step, list[uuid.UUID]]:
    """The ids of the run's waiting jobs in their order, by the step they wait for."""
    now = utcnow()
    waiting: dict[Step, list[uuid.UUID]] = {step: [] for step in Step}
    step_of = {step.waiting: step for step in Step}
    for row in session.scalars(
        select(RunTask).where(RunTask.run_id == run_id, RunTask.state.in_(step_of)).order_by(RunTask.position)
    ):
        waiting[step_of[row.state]].append(row.id)
        row.enqueued_at = now
    return waiting
