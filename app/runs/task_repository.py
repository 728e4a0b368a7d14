"""Queries about the job rows of runs."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session, joinedload, selectinload, undefer

from app.core.db.database import Database
from app.core.errors import ConflictError
from app.core.states import OPEN_RUN_STATES, UNTOUCHED_TASK_STATES, TaskState
from app.datasets.models import Task
from app.runs.models import Run, RunTask
from app.samples.models import Sample

BATCH_TASKS = 10
"""Tasks read at a time: a task may have a hundred samples, and each of them some kilobytes of text."""


def load_tasks_with_logprobs(session: Session, run_id: uuid.UUID) -> Sequence[RunTask]:
    """All tasks of the run in dataset order, with their samples, log-probabilities and ends of tokens."""
    columns = (Sample.logprobs, Sample.ends, Sample.top_logprobs)
    samples = selectinload(RunTask.samples).options(*map(undefer, columns))
    query = select(RunTask).where(RunTask.run_id == run_id).order_by(RunTask.position)
    return session.scalars(query.options(samples, undefer(RunTask.prompt_logprobs))).all()


def iterate_tasks(database: Database, run_id: uuid.UUID) -> Iterator[RunTask]:
    """All tasks of the run in dataset order with their samples and task id, for a reader that keeps none of them.

    Each batch has a session of its own, so that a slow reader holds no connection and what was read is freed. Raises
    ConflictError if the run is deleted meanwhile: what was written so far would look complete.
    """
    query = (
        select(RunTask)
        .where(RunTask.run_id == run_id)
        .order_by(RunTask.position)
        .limit(BATCH_TASKS)
        .options(selectinload(RunTask.samples), joinedload(RunTask.task, innerjoin=True).load_only(Task.task_id))
    )
    last = -1
    while True:
        with database.read() as session:
            batch = session.scalars(query.where(RunTask.position > last)).all()
            # After the batch was read: a deletion hides the run before it deletes samples.
            if session.scalar(select(Run.id).where(Run.id == run_id, Run.is_shown())) is None:
                raise ConflictError("the run was deleted while it was exported")
        if not batch:
            return
        yield from batch
        last = batch[-1].position


def has_task_left_queue(session: Session, run_id: uuid.UUID) -> bool:
    """Whether a task of the run has left the queue."""
    taken = select(RunTask.id).where(RunTask.run_id == run_id, RunTask.state != TaskState.QUEUED).limit(1)
    return session.scalar(taken) is not None


def find_untouched_runs(session: Session, runs: Collection[Run]) -> set[uuid.UUID]:
    """Ids of the open runs among these of which no worker has taken a task yet."""
    waiting = {run.id for run in runs if run.state in OPEN_RUN_STATES}
    touched = session.scalars(
        select(RunTask.run_id)
        .where(RunTask.run_id.in_(waiting), RunTask.state.not_in(UNTOUCHED_TASK_STATES))
        .distinct()
    )
    return waiting - set(touched) if waiting else waiting


def count_earlier_open_runs(session: Session, run: Run) -> int:
    """How many runs were submitted before this one and have not ended."""
    earlier = select(func.count()).where(Run.state.in_(OPEN_RUN_STATES), Run.id < run.id)
    return session.scalar(earlier) or 0
