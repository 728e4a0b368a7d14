"""The queries of the first page: one curve row per run, one row per arm of the newest studies."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session, contains_eager, joinedload

from app.core.states import LISTED_RUN_KINDS, OPEN_RUN_STATES, RunState, TaskState
from app.datasets.models import Dataset
from app.runs.colours import numbered_runs
from app.runs.models import Run, RunCurve, RunTag, RunTask
from app.studies.models import Study, StudyArm

STUDIES_READ = 20  # the newest

Result = tuple[uuid.UUID, RunState, dt.datetime | None]
"""Id, state and end of a run: changes with its curve and figures, which are written when a run ends."""


class Version(NamedTuple):
    """What the leaderboard asks of every run at each request: a change of its result, and what people noted on it."""

    id: uuid.UUID
    state: RunState
    finished_at: dt.datetime | None
    starred: bool
    archived: bool
    tags: tuple[str, ...]
    number: int  # gives the run its colour; changes when an earlier run is deleted

    @property
    def result(self) -> Result:
        """The part that changes with curve and figures."""
        return self[:3]

    @property
    def notes(self) -> dict[str, Any]:
        """The rest, by name."""
        return dict(list(self._asdict().items())[3:])


_LISTED = (Run.kind.in_(LISTED_RUN_KINDS), RunCurve.n_tasks > 0)


def versions(session: Session) -> list[Version]:
    """The versions of the evaluation runs that have ended with at least one graded task, newest first."""
    joined = func.aggregate_strings(RunTag.tag, " ").label("tags")
    of_run = select(RunTag.run_id, joined).group_by(RunTag.run_id).subquery()
    numbered = numbered_runs()
    query = (
        select(Run.id, Run.state, Run.finished_at, Run.starred, Run.archived, of_run.c.tags, numbered.c.number)
        .join(Run.curve)
        .join(numbered, numbered.c.id == Run.id)
        .outerjoin(of_run, of_run.c.run_id == Run.id)
        .where(*_LISTED)
        .order_by(Run.id.desc())
    )
    return [
        Version(run_id, state, finished_at, starred, archived, tuple(sorted((tags or "").split())), number)
        for run_id, state, finished_at, starred, archived, tags, number in session.execute(query)
    ]


def runs_with_curves(session: Session, only: Collection[uuid.UUID] | None = None) -> Sequence[Run]:
    """These runs (None: all on the leaderboard), with curve and dataset loaded."""
    query = (
        select(Run)
        .join(Run.curve)
        .where(*_LISTED)
        .options(contains_eager(Run.curve), joinedload(Run.stored_dataset, innerjoin=True))
    )
    return session.scalars(query if only is None else query.where(Run.id.in_(only))).all()


@dataclass(frozen=True, slots=True)
class StudyVersion:
    """A study that may give the answer of the first page.

    `arms` changes when an arm ends, goes on, is dropped or archived. `n_tasks` is how many tasks all arms that compare
    have finished. `elsewhere` tells that another service measured it, `disturbed` that an arm's clock was disturbed.
    """

    id: uuid.UUID
    elsewhere: bool
    in_progress: bool
    n_tasks: int
    disturbed: bool
    arms: tuple[object, ...]


def studies(session: Session, dataset: str = "") -> list[StudyVersion]:
    """The newest studies over this dataset ("": over any) that are not archived, newest first."""
    newest = select(Study.id).where(Study.archived.is_(False)).order_by(Study.id.desc()).limit(STUDIES_READ)
    if dataset:
        newest = newest.join(Study.dataset).where(Dataset.name == dataset)
    query = (
        select(
            Study.id,
            Study.measured_elsewhere,
            StudyArm.run_id,
            StudyArm.dropped_at,
            Run.state,
            Run.finished_at,
            Run.archived,
            Run.figures,
            RunCurve.n_tasks,
        )
        .join(Study.arms)
        .join(StudyArm.run)
        .outerjoin(Run.curve)
        .where(Study.id.in_(newest.scalar_subquery()))
        .order_by(Study.id.desc(), StudyArm.position)
    )
    by_study = groupby(session.execute(query).all(), key=lambda row: row.id)
    return [_study_version(session, study_id, list(rows)) for study_id, rows in by_study]


def _study_version(session: Session, study_id: uuid.UUID, rows: Sequence[Any]) -> StudyVersion:
    compared = [row for row in rows if row.dropped_at is None and row.state is not RunState.FAILED and not row.archived]
    in_progress = any(row.state in OPEN_RUN_STATES for row in compared)
    if in_progress:
        finished = _finished(session, [row.run_id for row in compared])
        n_tasks = min(finished.get(row.run_id, 0) for row in compared)
    else:
        n_tasks = min((row.n_tasks or 0 for row in compared), default=0)
    return StudyVersion(
        id=study_id,
        elsewhere=rows[0].measured_elsewhere is not None,
        in_progress=in_progress,
        n_tasks=n_tasks,
        disturbed=any(row.figures and row.figures.clock_marks for row in compared),
        arms=tuple((row.run_id, row.state, row.finished_at, row.dropped_at, row.archived) for row in rows),
    )


def _finished(session: Session, run_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, int]:
    """How many tasks of these runs are finished, by run id; without those that have none."""
    query = (
        select(RunTask.run_id, func.count().label("n_tasks"))
        .where(RunTask.run_id.in_(run_ids), RunTask.state == TaskState.FINISHED)
        .group_by(RunTask.run_id)
    )
    return {row.run_id: row.n_tasks for row in session.execute(query)}
