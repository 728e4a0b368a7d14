"""The queries of the leaderboard: one curve row per run."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session, contains_eager, joinedload

from app.core.states import LISTED_RUN_KINDS, RunState
from app.runs.models import Run, RunCurve

Version = tuple[uuid.UUID, RunState, dt.datetime | None, bool]
"""Id, state, end and `archived` of a run: changes with its curve and figures, which are written when a run ends."""


_LISTED = (Run.kind.in_(LISTED_RUN_KINDS), RunCurve.n_tasks > 0)


def list_versions(session: Session) -> Sequence[Version]:
    """The versions of the evaluation runs that have ended with at least one graded task, newest first."""
    query = select(Run.id, Run.state, Run.finished_at, Run.archived).join(Run.curve).where(*_LISTED)
    return session.execute(query.order_by(Run.id.desc())).all()


def load_runs_with_curves(session: Session, only: Collection[uuid.UUID] | None = None) -> Sequence[Run]:
    """These runs (None: all on the leaderboard), with curve and dataset loaded."""
    query = (
        select(Run)
        .join(Run.curve)
        .where(*_LISTED)
        .options(contains_eager(Run.curve), joinedload(Run.stored_dataset, innerjoin=True))
    )
    return session.scalars(query if only is None else query.where(Run.id.in_(only))).all()
