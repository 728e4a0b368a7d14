"""The first step of a run: check the sandbox and the canonical solutions, then enqueue the tasks."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import structlog
from sqlalchemy import ColumnElement, delete, func, or_, select, update
from sqlalchemy.orm import Session

from app.broker import queues
from app.context import Context
from app.datasets.check_job import HeldByOtherError
from app.datasets.checking import UnfinishedError, WorkersLostError, check_for_a_while
from app.datasets.models import Task
from app.db.database import OUTAGES, after_commit, updated_any
from app.db.types import utcnow
from app.errors import BasslineError
from app.events import event_types
from app.ports import require_toolchains
from app.runs import enqueue, transitions
from app.runs.models import Run, RunTask
from app.runs.policy import policy_of
from app.states import Failure, RunState, Step

TURN_S = 60.0  # after which other work of this worker goes before the rest of a check
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
    except HeldByOtherError:
        _wait_for_check(ctx, run_id)
        return
    except UnfinishedError:
        _send_rest(ctx, run_id)
        return
    except WorkersLostError as error:
        for waiting_id in _queued_over_dataset(ctx, run):
            transitions.fail_run(ctx, waiting_id, Failure.WORKER_LOST, str(error))
        return
    except BasslineError as error:
        transitions.fail_run(ctx, run_id, Failure.DATASET, str(error))
        return
    except OUTAGES:
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
    _send_waiting(ctx, run)


def _failing(ctx: Context, run: Run) -> list[str]:
    """Ids of the dataset's tasks whose own solution fails here. Raises if what is graded cannot be graded here."""
    if not run.graded:
        return []
    grader = ctx.make_grader()
    if run.dataset_id is None:
        return []  # a prompt has no solution
    return check_for_a_while(ctx, run.dataset_id, grader, turn_s=TURN_S, is_wanted=lambda: _is_queued(ctx, run.id))


def _is_queued(ctx: Context, run_id: uuid.UUID) -> bool:
    with ctx.database.read() as session:
        return session.scalar(select(Run.id).where(Run.id == run_id, Run.state == RunState.QUEUED)) is not None


def _wait_for_check(ctx: Context, run_id: uuid.UUID) -> None:
    """Leaves the run queued while another worker checks its dataset: that one, or the reaper, sends its message."""
    with ctx.database.session() as session:
        session.execute(update(Run).where(Run.id == run_id, Run.state == RunState.QUEUED).values(enqueued_at=None))


def _send_rest(ctx: Context, run_id: uuid.UUID) -> None:
    """Asks for the rest of a check, behind the grading that waits."""
    if ctx.stopping.is_set():
        return  # at the next start the run is prepared again
    with ctx.database.session() as session:
        if updated_any(
            session, update(Run).where(Run.id == run_id, Run.state == RunState.QUEUED).values(enqueued_at=utcnow())
        ):
            after_commit(session, ctx.broker.send, [(queues.PREPARE_RUN, run_id)], queues.EXEC)


def _send_waiting(ctx: Context, run: Run) -> None:
    """Asks for the runs to be prepared that waited for the check of their dataset."""
    for waiting_id in _queued_over_dataset(ctx, run, Run.enqueued_at.is_(None)):
        with ctx.database.session() as session:
            waiting = update(Run).where(Run.id == waiting_id, Run.enqueued_at.is_(None))
            if updated_any(session, waiting.values(enqueued_at=utcnow())):
                after_commit(session, enqueue.prepare, ctx, waiting_id)


def _queued_over_dataset(ctx: Context, run: Run, *conditions: ColumnElement[bool]) -> Sequence[uuid.UUID]:
    """The queued runs over the same dataset that this worker may prepare."""
    if not run.graded or run.dataset_id is None:
        return ()
    ours = or_(Run.pinned_worker.is_(None), Run.pinned_worker == ctx.worker_name)
    queued = select(Run.id).where(Run.dataset_id == run.dataset_id, Run.graded, Run.state == RunState.QUEUED, ours)
    with ctx.database.read() as session:
        return session.scalars(queued.where(*conditions)).all()


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
