"""The queries of an overlay: the runs, their samples without texts in one query, and one task's samples with them."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, case, func, null, select
from sqlalchemy.orm import Session, contains_eager, defer, joinedload, selectinload

from app.datasets.models import Task
from app.runs.figures import FINISHED_REASONS
from app.runs.models import Run, RunCurve, RunTask
from app.samples.models import Sample
from app.states import LISTED_RUN_KINDS, TaskState
from evaluation.verdicts import Status

_SHOWN = (
    Sample.run_task_id,
    Sample.index,
    Sample.raw,
    Sample.program,
    Sample.verdict,
    Sample.verdict_detail,
    Sample.finish_reason,
    Sample.finished_s,
    Sample.mean_logprob,
)
DETAIL_READ = 24  # characters of a verdict's detail: enough to tell a NameError from another exception


def runs(session: Session, run_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, Run]:
    """The runs that exist, with their dataset, by id."""
    query = select(Run).where(Run.id.in_(run_ids)).options(joinedload(Run.stored_dataset))
    return {run.id: run for run in session.scalars(query)}


def newest_with_figures(session: Session, limit: int) -> Sequence[Run]:
    """The newest runs that have ended with graded tasks and are not archived, with dataset and curve."""
    query = (
        select(Run)
        .join(Run.curve)
        .where(Run.kind.in_(LISTED_RUN_KINDS), RunCurve.n_tasks > 0, Run.archived.is_(False))
        .options(contains_eager(Run.curve), joinedload(Run.stored_dataset, innerjoin=True))
        .order_by(Run.id.desc())
        .limit(limit)
    )
    return session.scalars(query).all()


def samples(session: Session, run_ids: Sequence[uuid.UUID], *, details: bool = False) -> Sequence[Row[Any]]:
    """Every sample of the finished tasks of these runs, in no order, as a row of

    place of the run in `run_ids`, position of the task in its dataset, index, seconds at which it finished within its
    run's budget (None: it did not), mean log-probability, verdict, and with `details` the beginning of an exception's
    text.
    """
    place: ColumnElement[int] = case({run_id: i for i, run_id in enumerate(run_ids)}, value=RunTask.run_id)
    text: ColumnElement[Any] = null()
    if details:
        text = case((Sample.verdict == Status.EXCEPTION, func.substr(Sample.verdict_detail, 1, DETAIL_READ)))
    query = (
        select(
            place,
            Task.position,
            Sample.index,
            case((Sample.finish_reason.in_(FINISHED_REASONS), Sample.finished_s)),
            Sample.mean_logprob,
            Sample.verdict,
            text,
        )
        .join(RunTask, Sample.run_task_id == RunTask.id)
        .join(Task, RunTask.task_pk == Task.id)
        # The run of both tables, or PostgreSQL reads all job rows and looks the samples of each up on its own.
        .where(Sample.run_id.in_(run_ids), RunTask.run_id.in_(run_ids), RunTask.state == TaskState.FINISHED)
    )
    return session.connection().execute(query).all()  # past the ORM: a third of the time for so many rows


def task_ids(session: Session, run_id: uuid.UUID) -> dict[int, str]:
    """The ids of the run's tasks by their position in the dataset."""
    query = select(Task.position, Task.task_id).select_from(RunTask).join(RunTask.task).where(RunTask.run_id == run_id)
    return {row.position: row.task_id for row in session.execute(query)}


def rows_of_task(session: Session, run_ids: Collection[uuid.UUID], task_id: str) -> dict[uuid.UUID, RunTask]:
    """One task of these runs with its samples, by run id; runs without the task are missing."""
    query = (
        select(RunTask)
        .join(RunTask.task)
        .where(RunTask.run_id.in_(run_ids), Task.task_id == task_id)
        .options(
            contains_eager(RunTask.task),
            defer(RunTask.prompt_sent, raiseload=True),
            selectinload(RunTask.samples).load_only(*_SHOWN, raiseload=True),
        )
    )
    return {row.run_id: row for row in session.scalars(query)}
