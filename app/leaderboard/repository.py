"""The queries of the leaderboard: one curve row per run."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session, contains_eager, joinedload

from app.core.states import LISTED_RUN_KINDS, RunState
from app.runs.labels import number_runs
from app.runs.models import Run, RunCurve

Result = tuple[uuid.UUID, RunState, dt.datetime | None]
"""Id, state and end of a run: changes with its curve and figures, which are written when a run ends."""


class Version(NamedTuple):
    """What the leaderboard reads of every run at each request: its result, `archived` and its colour number."""

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
    def mutable_fields(self) -> dict[str, Any]:
        """The rest, by name."""
        return {"archived": self.archived, "number": self.number}


_LISTED = (Run.kind.in_(LISTED_RUN_KINDS), RunCurve.n_tasks > 0)


def list_versions(session: Session) -> list[Version]:
    """The versions of the evaluation runs that have ended with at least one graded task, newest first."""
    numbered = number_runs()
    query = (
        select(Run.id, Run.state, Run.finished_at, Run.archived, numbered.c.number)
        .join(Run.curve)
        .join(numbered, numbered.c.id == Run.id)
        .where(*_LISTED)
        .order_by(Run.id.desc())
    )
    return [Version(*row) for row in session.execute(query)]


def load_runs_with_curves(session: Session, only: Collection[uuid.UUID] | None = None) -> Sequence[Run]:
    """These runs (None: all on the leaderboard), with curve and dataset loaded."""
    query = (
        select(Run)
        .join(Run.curve)
        .where(*_LISTED)
        .options(contains_eager(Run.curve), joinedload(Run.stored_dataset, innerjoin=True))
    )
    return session.scalars(query if only is None else query.where(Run.id.in_(only))).all()
