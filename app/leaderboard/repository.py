"""What the leaderboard reads: one curve row per run."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session, contains_eager, joinedload

from app.datasets.models import Dataset
from app.runs.models import Run, RunCurve
from app.states import RunKind


def runs_with_curves(session: Session, *, dataset: str | None = None, target: str | None = None) -> Sequence[Run]:
    """Evaluation runs that have ended with something graded, newest first, with curve and dataset loaded."""
    query = (
        select(Run)
        .join(Run.curve)
        .join(Run.dataset)
        .where(Run.kind.in_((RunKind.EVAL, RunKind.IMPORTED)), RunCurve.n_tasks > 0)
        .options(contains_eager(Run.curve), joinedload(Run.dataset))
        .order_by(Run.id.desc())
    )
    if dataset:
        query = query.where(Dataset.name == dataset)
    if target:
        query = query.where(Run.target == target)
    return session.scalars(query).all()
