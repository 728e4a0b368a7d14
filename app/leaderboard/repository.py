"""The queries of the first page: one curve row per run, one row per arm of the newest studies that have ended."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session, contains_eager, joinedload

from app.core.states import LISTED_RUN_KINDS, OPEN_RUN_STATES, RunState
from app.datasets.models import Dataset
from app.runs.labels import numbered_runs
from app.runs.models import Run, RunCurve
from app.studies.models import Study, StudyArm

STUDIES_READ = 20  # the newest

Result = tuple[uuid.UUID, RunState, dt.datetime | None]
"""Id, state and end of a run: changes with its curve and figures, which are written when a run ends."""


class Version(NamedTuple):
    """What the leaderboard asks of every run at each request: a change of its result, and what people noted on it."""

    id: uuid.UUID
    state: RunState
    finished_at: dt.datetime | None
    archived: bool
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
    numbered = numbered_runs()
    query = (
        select(Run.id, Run.state, Run.finished_at, Run.archived, numbered.c.number)
        .join(Run.curve)
        .join(numbered, numbered.c.id == Run.id)
        .where(*_LISTED)
        .order_by(Run.id.desc())
    )
    return [Version(*row) for row in session.execute(query)]


def runs_with_curves(session: Session, only: Collection[uuid.UUID] | None = None) -> Sequence[Run]:
    """These runs (None: all on the leaderboard), with curve and dataset loaded."""
    query = (
        select(Run)
        .join(Run.curve)
        .where(*_LISTED)
        .options(contains_eager(Run.curve), joinedload(Run.stored_dataset, innerjoin=True))
    )
    return session.scalars(query if only is None else query.where(Run.id.in_(only))).all()


class EndedStudy(NamedTuple):
    """A study that may give the answer of the first page, with the names of the arms that compare by their runs."""

    id: uuid.UUID
    name: str
    elsewhere: str | None  # where it was measured; None: here
    arms: dict[uuid.UUID, str]


def list_ended_studies(session: Session, dataset: str = "") -> list[EndedStudy]:
    """The newest studies over this dataset ("": over any) that have ended and are not archived, newest first.

    Arms that a race dropped, that failed or that are archived are left out.
    """
    is_open = Study.arms.any(StudyArm.run.has(Run.state.in_(OPEN_RUN_STATES)))
    newest = select(Study.id).where(Study.archived.is_(False), ~is_open).order_by(Study.id.desc()).limit(STUDIES_READ)
    if dataset:
        newest = newest.join(Study.dataset).where(Dataset.name == dataset)
    query = (
        select(Study.id, Study.name, Study.measured_elsewhere, StudyArm.run_id, StudyArm.name.label("arm"))
        .join(Study.arms)
        .join(StudyArm.run)
        .where(Study.id.in_(newest.scalar_subquery()))
        .where(StudyArm.dropped_at.is_(None), Run.state != RunState.FAILED, Run.archived.is_(False))
        .order_by(Study.id.desc(), StudyArm.position)
    )
    found: dict[uuid.UUID, EndedStudy] = {}
    for row in session.execute(query):
        study = found.setdefault(row.id, EndedStudy(row.id, row.name, row.measured_elsewhere, {}))
        study.arms[row.run_id] = row.arm
    return list(found.values())
