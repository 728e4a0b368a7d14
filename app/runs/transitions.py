"""How a run ends: all its tasks done, cancelled, interrupted, or failed as a whole. Each is one conditional UPDATE."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from app.context import Context
from app.db.database import updated_any
from app.db.types import utcnow
from app.errors import Conflict
from app.events import event_types
from app.runs import figures
from app.runs.models import Run, RunTask
from app.runs.repository import get_run
from app.samples.models import Sample
from app.states import OPEN_RUN_STATES, OPEN_TASK_STATES, RunKind, RunState, TaskState


def close_if_done(ctx: Context, run_id: uuid.UUID) -> None:
    """Ends the run if no task is open. Any number of callers may try; one of them does it, with the figures."""
    open_tasks = select(RunTask.id).where(RunTask.run_id == run_id, RunTask.state.in_(OPEN_TASK_STATES)).exists()
    with ctx.database.session() as session:
        if not updated_any(
            session,
            update(Run)
            .where(Run.id == run_id, Run.state == RunState.RUNNING, ~open_tasks)
            .values(state=RunState.FINISHED, finished_at=utcnow()),
        ):
            return
        run = get_run(session, run_id)
        run.state, run.error = _verdict(session, run)
        figures.record(session, run)
        state, error = run.state, run.error
    ctx.bus.publish(run_id, event_types.STATE, {"state": state, "error": error})


def cancel(ctx: Context, run_id: uuid.UUID) -> None:
    """Asks for no more of the run. Waiting tasks end at once, one being decoded within a second; samples are kept.

    Raises NotFound, or Conflict for a run that has ended.
    """
    with ctx.database.session() as session:
        if not updated_any(
            session,
            update(Run)
            .where(Run.id == run_id, Run.state.in_(OPEN_RUN_STATES))
            .values(state=RunState.RUNNING, cancel_requested_at=utcnow()),
        ):
            raise Conflict(
                f"the run is {get_run(session, run_id).state}: only a queued or running one can be cancelled"
            )
        # The samples of an import are there from the beginning, so its tasks wait for nothing but grading.
        imported = session.scalars(select(Run.kind).where(Run.id == run_id)).one() is RunKind.IMPORTED
        session.execute(
            update(RunTask)
            .where(RunTask.run_id == run_id, RunTask.state == (TaskState.DECODED if imported else TaskState.QUEUED))
            .values(state=TaskState.CANCELLED, finished_at=utcnow())
        )
    close_if_done(ctx, run_id)


def interrupt(ctx: Context, run_id: uuid.UUID, reason: str | None = None) -> bool:
    """Stops an open run so that `runs resume` can finish it; figures cover what is finished. True if it was open."""
    return _stop(ctx, run_id, RunState.INTERRUPTED, reason)


def fail_run(ctx: Context, run_id: uuid.UUID, sentence: str) -> bool:
    """Ends an open run that cannot be worked at all: no sandbox, no model. True if it was open."""
    return _stop(ctx, run_id, RunState.FAILED, sentence)


def skip_rest(ctx: Context, run_id: uuid.UUID) -> None:
    """Leaves the waiting tasks undone: the run's time limit is over, and it covers what was taken up before."""
    with ctx.database.session() as session:
        session.execute(
            update(RunTask)
            .where(RunTask.run_id == run_id, RunTask.state == TaskState.QUEUED)
            .values(state=TaskState.SKIPPED)
        )
    close_if_done(ctx, run_id)


def reopen(ctx: Context, run_id: uuid.UUID, pinned_worker: str | None = None, *, ring: bool = True) -> None:
    """Makes an ended run queued again with what it has not finished; finished samples are kept.

    A task that was decoded and not graded is only graded. The caller rings for the run (`ring`: see
    service.submit). Raises NotFound, or Conflict for a run that is open or has nothing left to do.
    """
    undone = (TaskState.FAILED, TaskState.CANCELLED, TaskState.SKIPPED)
    with ctx.database.session() as session:
        run = get_run(session, run_id)
        if run.state in OPEN_RUN_STATES:
            raise Conflict(f"the run is {run.state}: only one that has ended can be resumed")
        _judge_again(session, run, undone)
        again = select(RunTask.id).where(RunTask.run_id == run_id, RunTask.state.in_(undone))
        session.execute(delete(Sample).where(Sample.run_task_id.in_(again)))
        session.execute(
            update(RunTask)
            .where(RunTask.run_id == run_id, RunTask.state.in_(undone))
            .values(
                state=TaskState.QUEUED, attempt=0, error=None, queued_at=utcnow(), started_at=None, finished_at=None
            )
        )
        left = session.scalar(select(func.count()).where(RunTask.run_id == run_id, RunTask.state.in_(OPEN_TASK_STATES)))
        if not left:
            raise Conflict("the run has finished all its tasks: nothing is left to resume")
        run.state, run.error, run.finished_at, run.cancel_requested_at = RunState.QUEUED, None, None, None
        run.pinned_worker, run.time_limit_s, run.rung_at = pinned_worker, None, utcnow() if ring else None
    ctx.bus.publish(run_id, event_types.STATE, {"state": RunState.QUEUED, "error": None})


def _judge_again(session: Session, run: Run, undone: Sequence[TaskState]) -> None:
    """Puts tasks that lack nothing but their verdicts back before grading: their samples are kept.

    Those are tasks of which grading failed, and every task whose samples were made elsewhere.
    """
    has_samples = select(Sample.id).where(Sample.run_task_id == RunTask.id).exists()
    imported = run.kind is RunKind.IMPORTED
    session.execute(
        update(RunTask)
        .where(RunTask.run_id == run.id, RunTask.state.in_(undone if imported else (TaskState.FAILED,)), has_samples)
        .values(state=TaskState.DECODED, attempt=0, error=None, started_at=None, finished_at=None),
        execution_options={"synchronize_session": False},
    )


def _stop(ctx: Context, run_id: uuid.UUID, state: RunState, error: str | None) -> bool:
    with ctx.database.session() as session:
        if not updated_any(
            session,
            update(Run)
            .where(Run.id == run_id, Run.state.in_(OPEN_RUN_STATES))
            .values(state=state, error=error, finished_at=utcnow()),
        ):
            return False
        figures.record(session, get_run(session, run_id))
    ctx.bus.publish(run_id, event_types.STATE, {"state": state, "error": error})
    return True


def _verdict(session: Session, run: Run) -> tuple[RunState, str | None]:
    """What a run without open tasks has become: nothing finished and something failed is a failed run."""
    if run.cancel_requested_at is not None:
        return RunState.CANCELLED, None
    states = session.execute(
        select(RunTask.state, RunTask.error).where(RunTask.run_id == run.id).order_by(RunTask.position)
    ).all()
    if not states:
        return RunState.FAILED, "no task is left to decode: the canonical solutions of all of them fail in this sandbox"
    failed = [error for state, error in states if state == TaskState.FAILED]
    if failed and not any(state == TaskState.FINISHED for state, _ in states):
        return RunState.FAILED, failed[0]
    return RunState.FINISHED, f"{len(failed)} of {len(states)} tasks failed; the first: {failed[0]}" if failed else None
