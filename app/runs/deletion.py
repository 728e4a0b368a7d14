"""Deletes a run for good: its rows, its live events, the stored answers about it, and the prompt of a completion."""

from __future__ import annotations

import uuid

import sqlalchemy as sa
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.context import Context
from app.datasets.models import Dataset
from app.db.database import after_commit
from app.errors import ConflictError
from app.runs.models import Run
from app.runs.repository import get_run
from app.states import OPEN_RUN_STATES, DatasetKind


def delete(ctx: Context, run_id: uuid.UUID) -> None:
    """Removes an ended run with its tasks, its samples and the baseline made for it; of a completion the prompt too.

    Answers kept for an Idempotency-Key go by a cascade. Raises NotFoundError, or ConflictError while the run is open or
    an arm of a study.
    """
    try:
        with ctx.database.session() as session:
            run = get_run(session, run_id)
            if run.state in OPEN_RUN_STATES:
                raise ConflictError(f"the run is {run.state}: cancel it before you delete it")
            remove(ctx, session, run)
    except IntegrityError:
        raise ConflictError("the run is an arm of a study: delete the study") from None
    _forget_prompt(ctx, run.dataset_id)


def remove(ctx: Context, session: Session, run: Run) -> None:
    """Deletes the rows of an ended run and of its baseline in this session, and its live events after COMMIT."""
    baseline = run.measured.plain_run
    for row in (run, session.get(Run, uuid.UUID(baseline)) if baseline else None):
        if row is not None:
            session.delete(row)
    after_commit(session, ctx.bus.forget, run.id)


def _forget_prompt(ctx: Context, dataset_id: uuid.UUID) -> None:
    """Removes a dataset that is the prompt of a completion, unless another completion has the same."""
    used = select(Run.id).where(Run.dataset_id == Dataset.id).exists()
    try:
        with ctx.database.session() as session:
            session.execute(
                sa.delete(Dataset).where(Dataset.id == dataset_id, Dataset.kind == DatasetKind.PROMPT, ~used)
            )
    except IntegrityError:
        pass  # a new completion with this prompt was just stored
