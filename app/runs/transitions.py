"""State changes of a run: closed, cancelled, interrupted, failed, reopened. Each is one transaction."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

from sqlalchemy import ColumnElement, and_, delete, func, or_, select, update
from sqlalchemy.orm import Session

from app.core.context import Context
from app.core.db.clock import clamp_end_to_start
from app.core.db.database import call_after_commit, execute_change
from app.core.db.types import get_utc_time
from app.core.errors import ConflictError
from app.core.events import event_types
from app.core.states import OPEN_RUN_STATES, OPEN_TASK_STATES, Failure, RunState, TaskState
from app.runs import enqueue, figures
from app.runs.models import Run, RunTask
from app.runs.policy import find_policy
from app.runs.quiet import build_quiet_wait, parse_quiet_wait
from app.runs.repository import get_run, lock_run
from app.samples.models import Sample

MAX_TRIES = 5  # to compute figures while no task changes
RunOutcome = tuple[RunState, str | None, Failure | None]
"""(state, error, failure) of a run that has ended."""
# A job before its first attempt.
_FRESH = {"attempt": 0, "error": None, "failure": None, "started_at": None, "finished_at": None}


def close_if_done(ctx: Context, run_id: uuid.UUID) -> None:
    """Ends the run, with its figures, if no task is open. Of any number of callers one does it.

    Called after every task: while others are open, it only reads.
    """
    open_tasks = select(RunTask.id).where(RunTask.run_id == run_id, RunTask.state.in_(OPEN_TASK_STATES)).exists()
    done = (Run.state == RunState.RUNNING, ~open_tasks)
    _end(ctx, run_id, done, _determine_outcome)


def cancel(ctx: Context, run_id: uuid.UUID) -> None:
    """Ends waiting tasks at once, tasks being decoded within a second, and tasks being graded after the programs that
    run just now. Samples are kept; after `reopen`, tasks that were decoded already are only graded.

    Raises NotFoundError, or ConflictError for a run that has ended.
    """
    with ctx.database.session() as session:
        if not execute_change(
            session,
            update(Run)
            .where(Run.id == run_id, Run.state.in_(OPEN_RUN_STATES))
            .values(state=RunState.RUNNING, cancel_requested_at=get_utc_time()),
        ):
            raise ConflictError(
                f"the run is {get_run(session, run_id).state}: only a queued or running one can be cancelled"
            )
        session.execute(
            update(RunTask)
            .where(RunTask.run_id == run_id, RunTask.state.in_((TaskState.QUEUED, TaskState.DECODED)))
            .values(state=TaskState.CANCELLED, finished_at=clamp_end_to_start(RunTask.started_at, get_utc_time()))
        )
    close_if_done(ctx, run_id)


def interrupt(ctx: Context, run_id: uuid.UUID, error: str | None = None) -> bool:
    """Stops an open run; `runs resume` can finish it, and its figures cover what is finished. True if it was open."""
    return _stop(ctx, run_id, RunState.INTERRUPTED, error, None)


def fail_run(ctx: Context, run_id: uuid.UUID, failure: Failure, error: str) -> bool:
    """Ends an open run that cannot be processed: no sandbox, no model. True if it was open."""
    return _stop(ctx, run_id, RunState.FAILED, error, failure)


def skip_rest(ctx: Context, run_id: uuid.UUID) -> None:
    """Leaves waiting tasks undone: the time limit is over, or a race dropped it. Those being decoded are finished."""
    with ctx.database.session() as session:
        session.execute(
            update(RunTask)
            .where(RunTask.run_id == run_id, RunTask.state == TaskState.QUEUED)
            .values(state=TaskState.SKIPPED)
        )
    close_if_done(ctx, run_id)


def reopen(ctx: Context, run_id: uuid.UUID, pinned_worker: str | None = None, *, handover: bool = False) -> None:
    """Makes an ended run queued again with what it has not finished, and enqueues it; finished samples are kept.

    A task that was decoded and not graded is only graded. `handover`: see service.submit. Raises NotFoundError, or
    ConflictError for a run that is open or has nothing left to do.
    """
    with ctx.database.session() as session:
        reopen_in_session(ctx, session, run_id, pinned_worker, handover=handover)


def reopen_in_session(
    ctx: Context, session: Session, run_id: uuid.UUID, pinned_worker: str | None = None, *, handover: bool = False
) -> None:
    """`reopen` in the transaction of the caller, which has changed nothing where it raises ConflictError."""
    undone = (TaskState.FAILED, TaskState.CANCELLED, TaskState.SKIPPED)
    run = lock_run(session, run_id)  # of two at once, the second one finds it reopened
    if run.state in OPEN_RUN_STATES:
        raise ConflictError(f"the run is {run.state}: only one that has ended can be resumed")
    if run.measured_elsewhere:
        raise ConflictError("the run was measured elsewhere: make one of your own with the same options")
    _return_to_grading(session, run, undone)
    again = select(RunTask.id).where(RunTask.run_id == run_id, RunTask.state.in_(undone))
    session.execute(delete(Sample).where(Sample.run_task_id.in_(again)))
    session.execute(
        update(RunTask)
        .where(RunTask.run_id == run_id, RunTask.state.in_(undone))
        .values(state=TaskState.QUEUED, queued_at=get_utc_time(), **_FRESH)
    )
    left = session.scalar(select(func.count()).where(RunTask.run_id == run_id, RunTask.state.in_(OPEN_TASK_STATES)))
    if not left:
        raise ConflictError("the run has finished all its tasks: nothing is left to resume")
    run.state, run.error, run.failure, run.finished_at = RunState.QUEUED, None, None, None
    run.cancel_requested_at = run.time_limit_s = None
    wait = parse_quiet_wait(run.quiet)
    run.quiet = build_quiet_wait(wait.limit_s if wait else None)  # its limit begins again
    run.pinned_worker, run.enqueued_at = pinned_worker, None if handover else get_utc_time()
    _publish_after_commit(ctx, session, run)
    if not handover:
        call_after_commit(session, enqueue.enqueue_preparation, ctx, run_id)


def _return_to_grading(session: Session, run: Run, undone: Sequence[TaskState]) -> None:
    """Returns tasks that lack only their verdicts to the state before grading; their samples are kept.

    Those are every task of an import, tasks that failed after decoding, and of a graded run those cancelled after it.
    One whose decoding was cancelled is decoded again: a sample of it has that finish reason.
    """
    samples = select(Sample.id).where(Sample.run_task_id == RunTask.id)
    lacking: ColumnElement[bool] = RunTask.state.in_(undone)
    if not run.is_imported:
        lacking = RunTask.state == TaskState.FAILED
        if run.graded:
            whole = ~samples.where(Sample.finish_reason == "cancelled").exists()
            lacking = or_(lacking, and_(RunTask.state == TaskState.CANCELLED, whole))
    session.execute(
        update(RunTask)
        .where(RunTask.run_id == run.id, lacking, samples.exists())
        .values(state=TaskState.DECODED, **_FRESH),
        execution_options={"synchronize_session": False},
    )


def _stop(ctx: Context, run_id: uuid.UUID, state: RunState, error: str | None, failure: Failure | None) -> bool:
    return _end(ctx, run_id, (Run.state.in_(OPEN_RUN_STATES),), lambda _session, _run: (state, error, failure))


def _end(
    ctx: Context,
    run_id: uuid.UUID,
    conditions: tuple[ColumnElement[bool], ...],
    decide: Callable[[Session, Run], RunOutcome],
) -> bool:
    """Ends the run, if the conditions hold, with its figures. Of any number of callers one does it, and gets True.

    The figures are computed before the transaction that writes them, which other writers wait for. They are computed
    again if a task has changed meanwhile.
    """
    for attempt in range(MAX_TRIES):
        with ctx.database.read() as session:
            if session.scalar(select(Run.id).where(Run.id == run_id, *conditions)) is None:
                return False
            counts = _count_tasks_by_state(session, run_id)
            measurement = figures.compute_measurement(session, get_run(session, run_id))
        with ctx.database.session() as session:
            if not _claim_end(session, run_id, conditions):
                return False
            run = get_run(session, run_id)
            if _count_tasks_by_state(session, run_id) != counts:
                if attempt < MAX_TRIES - 1:
                    session.rollback()  # no state changes, and the figures are computed again
                    continue
                measurement = figures.compute_measurement(session, run)
            run.state, run.error, run.failure = decide(session, run)
            figures.store_measurement(session, run, measurement)
            _publish_after_commit(ctx, session, run)
            find_policy(session, run_id).on_run_end(ctx, session, run)
            return True
    raise AssertionError("the last try ends the run, or finds it ended")


def _claim_end(session: Session, run_id: uuid.UUID, conditions: tuple[ColumnElement[bool], ...]) -> bool:
    """Takes the lock of the run's row, so that one caller ends it. False if the conditions do not hold.

    The state that it sets is provisional: `decide` chooses the one that stays, under the lock.
    """
    finished_at = clamp_end_to_start(Run.started_at, get_utc_time())
    ended = update(Run).where(Run.id == run_id, *conditions)
    return execute_change(session, ended.values(state=RunState.FINISHED, finished_at=finished_at))


def _count_tasks_by_state(session: Session, run_id: uuid.UUID) -> tuple[tuple[TaskState, int], ...]:
    """How many tasks of the run are in each state: equal before and after while no task has changed."""
    counts = select(RunTask.state, func.count()).where(RunTask.run_id == run_id).group_by(RunTask.state)
    return tuple(sorted((state, count) for state, count in session.execute(counts)))


def _publish_after_commit(ctx: Context, session: Session, run: Run) -> None:
    call_after_commit(session, ctx.bus.publish, run.id, event_types.STATE, {"state": run.state, "error": run.error})


def _determine_outcome(session: Session, run: Run) -> RunOutcome:
    """(state, error, failure) of a run without open tasks. It failed if it has no task, or if a task failed and none
    finished."""
    if run.cancel_requested_at is not None:
        return RunState.CANCELLED, None, None
    tasks = session.execute(
        select(RunTask.state, RunTask.error, RunTask.failure).where(RunTask.run_id == run.id).order_by(RunTask.position)
    ).all()
    if not tasks:
        error = "no task is left to decode: the canonical solutions of all of them fail in this sandbox"
        return RunState.FAILED, error, Failure.DATASET
    failed = [task for task in tasks if task.state == TaskState.FAILED]
    if not failed:
        return RunState.FINISHED, None, None
    first = failed[0]
    if not any(task.state == TaskState.FINISHED for task in tasks):
        return RunState.FAILED, first.error, first.failure
    return RunState.FINISHED, f"{len(failed)} of {len(tasks)} tasks failed; the first: {first.error}", None
