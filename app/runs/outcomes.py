"""The loader of paired outcomes: from runs to arrays over the tasks that all of them have graded.

Overlays, comparisons of two runs, studies and the first page all read samples through it.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
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
    columns: Any = zip(*rows, strict=True) if rows else [()] * len(SampleRow._fields)
    runs, positions, index, reasons, finished_s, logprob, verdicts, n_tokens, _ = columns
    run_of_sample = np.array(runs, dtype=np.int64)
    known_positions, task_of_sample = np.unique(np.array(positions, dtype=np.int64), return_inverse=True)
    has_verdict = np.array([verdict not in (None, SANDBOX_ERROR) for verdict in verdicts], dtype=np.bool_)
    graded = _build_graded_matrix((n_runs, len(known_positions)), run_of_sample, task_of_sample, has_verdict)
    is_untimed = np.array([r in FINISHED_REASONS and s is None for r, s in zip(reasons, finished_s, strict=True)], bool)
    untimed = np.isin(np.arange(n_runs), run_of_sample[is_untimed])
    empty = ~np.asarray(graded.any(axis=1))
    kept = ~empty & ~untimed
    common = np.asarray(graded[kept].all(axis=0)) if kept.any() else np.zeros(len(known_positions), dtype=np.bool_)
    used = np.flatnonzero(kept[run_of_sample] & common[task_of_sample])
    outcomes = None
    if common.any():
        # What is left out has no number, so the runs and tasks that remain are numbered from 0 again.
        new_run_index, new_task_index = np.cumsum(kept) - 1, np.cumsum(common) - 1
        samples = SampleColumns(
            run=new_run_index[run_of_sample[used]],
            task=new_task_index[task_of_sample[used]],
            index=np.array(index, dtype=np.int64)[used],
            finished_s=np.array(finished_s, dtype=np.float64)[used],  # None becomes NaN
            mean_logprob=np.array(logprob, dtype=np.float64)[used],
            passed=np.array([verdict == PASSED for verdict in verdicts], dtype=np.bool_)[used],
            n_tokens=np.array(n_tokens, dtype=np.int64)[used],
        )
        outcomes = PairedOutcomes(int(kept.sum()), [task_ids[at] for at in known_positions[common].tolist()], samples)
    return GradedRuns(
        places=tuple(np.flatnonzero(kept).tolist()),
        untimed=tuple(np.flatnonzero(untimed).tolist()),
        empty=tuple(np.flatnonzero(empty).tolist()),
        graded=tuple(graded[kept].sum(axis=1).tolist()),
        samples=tuple(rows[i] for i in used.tolist()),
        outcomes=outcomes,
    )


def _build_graded_matrix(
    shape: tuple[int, int],
    run_of_sample: NDArray[np.int64],
    task_of_sample: NDArray[np.int64],
    has_verdict: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """bool [run, task]: whether the run has samples of the task, all with a verdict other than a sandbox error."""
    has_samples, lacks_verdict = np.zeros((2, *shape), dtype=np.bool_)
    has_samples[run_of_sample, task_of_sample] = True
    lacks_verdict[run_of_sample[~has_verdict], task_of_sample[~has_verdict]] = True
    return has_samples & ~lacks_verdict
