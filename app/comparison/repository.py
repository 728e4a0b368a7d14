"""The queries of an overlay beside the samples that it compares: runs, and one task with its texts."""

from __future__ import annotations

import uuid
from collections.abc import Collection

from sqlalchemy import select
from sqlalchemy.orm import Session, contains_eager, defer, joinedload, selectinload

from app.datasets.models import Task
from app.runs.models import Run, RunTask
from app.samples.models import Sample

_SHOWN = (
    Sample.run_task_id,
    Sample.index,
    Sample.verdict,
    Sample.verdict_detail,
    Sample.finish_reason,
    Sample.finished_s,
    Sample.mean_logprob,
)


def runs(session: Session, run_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, Run]:
    """The runs that exist, with their dataset, by id."""
    query = select(Run).where(Run.id.in_(run_ids)).options(joinedload(Run.stored_dataset))
    return {run.id: run for run in session.scalars(query)}


def rows_of_task(session: Session, run_ids: Collection[uuid.UUID], task_id: str) -> dict[uuid.UUID, RunTask]:
    """One task of these runs with its samples, by run id; runs without the task are missing.

    The texts of a sample are read when they are asked for.
    """
    query = (
        select(RunTask)
        .join(RunTask.task)
        .where(RunTask.run_id.in_(run_ids), Task.task_id == task_id)
        .options(
            contains_eager(RunTask.task),
            defer(RunTask.prompt_sent, raiseload=True),
            selectinload(RunTask.samples).load_only(*_SHOWN),
        )
    )
    return {row.run_id: row for row in session.scalars(query)}
