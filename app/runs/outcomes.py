"""The loader of paired outcomes: from runs to arrays over the tasks that all of them have graded.

Overlays, comparisons of two runs, studies and the first page all read samples through it.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import ColumnElement, case, func, null, select
from sqlalchemy.orm import Session, joinedload, load_only

from app.core.states import PASSED, SANDBOX_ERROR, TaskState
from app.datasets.models import Task
from app.runs.models import Run, RunTask
from app.samples.models import FINISHED_REASONS, Sample
from evaluation.outcomes import PairedOutcomes, SampleColumns
from evaluation.verdicts import Status

DETAIL_READ = 24  # characters of a verdict's detail: enough to tell a NameError from another exception
_TIMED = (
    RunTask.state,
    RunTask.task_pk,
    RunTask.queued_at,
    RunTask.queue_s,
    RunTask.wall_s,
    RunTask.capacity_s,
    RunTask.others_cpu_s,
    RunTask.steal_s,
    RunTask.n_verified,
    RunTask.n_prompt_tokens,
    RunTask.cached_tokens,
)


class SampleRow(NamedTuple):
    """A sample of a finished task without its texts, as the database or a run's file has it."""

    run: int  # index among the runs that were asked for
    task: int  # position in the dataset
    index: int  # type: ignore[assignment]  # hides the method of tuples, as the attribute of Sample is called so
    finish_reason: str | None
    finished_s: float | None  # None: cut off, or not known
    mean_logprob: float | None
    verdict: str | None
    n_tokens: int
    detail: str | None = None  # the beginning of an exception's text


@dataclass(frozen=True, slots=True)
class GradedRuns:
    """The runs that can be compared, by their places among those that were given, and their samples."""

    places: tuple[int, ...]
    untimed: tuple[int, ...]  # left out, because a sample that finished does not say when
    empty: tuple[int, ...]  # left out, because no task is graded
    graded: tuple[int, ...]  # how many tasks each of `places` has graded
    samples: tuple[SampleRow, ...]  # of the common tasks, in the order of the columns of `outcomes`
    outcomes: PairedOutcomes | None  # None without a common task


def read_samples(session: Session, run_ids: Sequence[uuid.UUID], *, details: bool = False) -> list[SampleRow]:
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
            Sample.n_tokens,
            text,
        )
        .join(RunTask, Sample.run_task_id == RunTask.id)
        .join(Task, RunTask.task_pk == Task.id)
        # The run of both tables, or PostgreSQL reads all job rows and looks the samples of each up on its own.
        .where(Sample.run_id.in_(run_ids), RunTask.run_id.in_(run_ids), RunTask.state == TaskState.FINISHED)
    )
    rows = session.connection().execute(query)  # past the ORM: a third of the time for so many rows
    return [SampleRow._make(row) for row in rows]


def read_tasks(session: Session, run_id: uuid.UUID) -> dict[RunTask, int]:
    """The tasks of a run without their samples, and how many tokens the samples of each have."""
    tokens = select(func.coalesce(func.sum(Sample.n_tokens), 0)).where(Sample.run_task_id == RunTask.id)
    query = (
        select(RunTask, tokens.scalar_subquery())
        .where(RunTask.run_id == run_id)
        .order_by(RunTask.position)
        .options(
            load_only(*_TIMED, raiseload=True),
            joinedload(RunTask.task, innerjoin=True).load_only(Task.task_id, Task.position, raiseload=True),
        )
    )
    return dict(session.execute(query).all())


def read_task_ids(session: Session, run_ids: Collection[uuid.UUID]) -> dict[int, str]:
    """The ids of the tasks of runs over one dataset, by their position in it."""
    query = select(Task.position, Task.task_id).select_from(RunTask).join(RunTask.task)
    return {row.position: row.task_id for row in session.execute(query.where(RunTask.run_id.in_(run_ids)).distinct())}


def load_outcomes(session: Session, runs: Sequence[Run]) -> GradedRuns:
    """The samples of runs of the database, paired by task."""
    ids = [run.id for run in runs]
    return pair_outcomes(len(ids), read_samples(session, ids), read_task_ids(session, ids))


def pair_outcomes(n_runs: int, rows: Sequence[SampleRow], task_ids: Mapping[int, str]) -> GradedRuns:
    """The runs over the tasks that all of them have graded, in the order of the dataset, given all their samples.

    `task_ids` are by their position in the dataset. A task is graded if it is finished and each of its samples has a
    verdict other than a sandbox error. Left out are runs without a graded task and those without finish times.
    """
    seen, ungraded = ([set[int]() for _ in range(n_runs)] for _ in range(2))  # positions of tasks by run
    untimed = set[int]()
    for row in rows:
        seen[row.run].add(row.task)
        if row.verdict in (None, SANDBOX_ERROR):
            ungraded[row.run].add(row.task)
        if row.finish_reason in FINISHED_REASONS and row.finished_s is None:
            untimed.add(row.run)
    graded = [tasks - others for tasks, others in zip(seen, ungraded, strict=True)]
    places = [place for place in range(n_runs) if graded[place] and place not in untimed]
    common = sorted(set.intersection(*(graded[place] for place in places))) if places else []
    # What is left out has no number, so the runs and tasks that remain are numbered from 0 again.
    new_runs, new_tasks = ({old: new for new, old in enumerate(kept)} for kept in (places, common))
    used = [row for row in rows if row.run in new_runs and row.task in new_tasks]
    outcomes = None
    if common:
        samples = SampleColumns(
            run=np.array([new_runs[row.run] for row in used], dtype=np.int64),
            task=np.array([new_tasks[row.task] for row in used], dtype=np.int64),
            index=np.array([row.index for row in used], dtype=np.int64),
            finished_s=np.array([row.finished_s for row in used], dtype=np.float64),  # None becomes NaN
            mean_logprob=np.array([row.mean_logprob for row in used], dtype=np.float64),
            passed=np.array([row.verdict == PASSED for row in used], dtype=np.bool_),
            n_tokens=np.array([row.n_tokens for row in used], dtype=np.int64),
        )
        outcomes = PairedOutcomes(len(places), [task_ids[position] for position in common], samples)
    return GradedRuns(
        places=tuple(places),
        untimed=tuple(sorted(untimed)),
        empty=tuple(place for place in range(n_runs) if not graded[place]),
        graded=tuple(len(graded[place]) for place in places),
        samples=tuple(used),
        outcomes=outcomes,
    )
