"""The queries of an overlay: runs, their samples without texts, their tasks without samples, and one task with both."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, case, func, null, select
from sqlalchemy.orm import Session, contains_eager, defer, joinedload, load_only, selectinload

from app.datasets.models import Task
from app.runs.models import Run, RunCurve, RunTask
from app.samples.models import FINISHED_REASONS, Sample
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
_TIMED = (
    RunTask.state,
    RunTask.task_pk,
    RunTask.queued_at,
    RunTask.queue_s,
    RunTask.wall_s,
    RunTask.capacity_s,
    RunTask.others_cpu_s,
    RunTask.steal_s,
)
DETAIL_READ = 24  # characters of a verdict's detail: enough to tell a NameError from another exception


class SampleRow(NamedTuple):
    """A sample of a finished task without its texts, as the database or a run's file has it."""

    run: int  # index among the runs that were asked for
    task: int  # position in the dataset
    index: int  # type: ignore[assignment]  # hides the method of tuples, as the attribute of Sample is called so
    finish_reason: str | None
    finished_s: float | None  # None: not within its run's budget
    mean_logprob: float | None
    verdict: str | None
    detail: str | None = None  # the beginning of an exception's text


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


def samples(session: Session, run_ids: Sequence[uuid.UUID], *, details: bool = False) -> list[SampleRow]:
    """Every sample of the finished tasks of these runs, in no order; `detail` is None unless `details` asks for it."""
    place: ColumnElement[int] = case({run_id: i for i, run_id in enumerate(run_ids)}, value=RunTask.run_id)
    text: ColumnElement[Any] = null()
    if details:
        text = case((Sample.verdict == Status.EXCEPTION, func.substr(Sample.verdict_detail, 1, DETAIL_READ)))
    query = (
        select(
            place,
            Task.position,
            Sample.index,
            Sample.finish_reason,
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
    rows = session.connection().execute(query)  # past the ORM: a third of the time for so many rows
    return [SampleRow._make(row) for row in rows]


def tasks_with_tokens(session: Session, run_id: uuid.UUID) -> dict[RunTask, int]:
    """The tasks of a run without their samples, and how many tokens the samples of each have."""
    tokens = select(func.coalesce(func.sum(Sample.n_tokens), 0)).where(Sample.run_task_id == RunTask.id)
    query = (
        select(RunTask, tokens.scalar_subquery())
        .where(RunTask.run_id == run_id)
        .options(
            load_only(*_TIMED, raiseload=True),
            joinedload(RunTask.task, innerjoin=True).load_only(Task.task_id, Task.position, raiseload=True),
        )
    )
    return dict(session.execute(query).all())


def task_ids(session: Session, run_ids: Collection[uuid.UUID]) -> dict[int, str]:
    """The ids of the tasks of runs over one dataset, by their position in it."""
    query = select(Task.position, Task.task_id).select_from(RunTask).join(RunTask.task)
    return {row.position: row.task_id for row in session.execute(query.where(RunTask.run_id.in_(run_ids)).distinct())}


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
