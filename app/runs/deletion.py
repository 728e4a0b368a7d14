"""Deletes a run for good: its rows, its live events and the stored answers about it."""

from __future__ import annotations

import uuid

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.context import Context
from app.db.database import after_commit
from app.errors import ConflictError
from app.runs.models import Run
from app.runs.repository import lock_run
from app.states import OPEN_RUN_STATES


def delete(ctx: Context, run_id: uuid.UUID) -> None:
    """Removes an ended run with its jobs, its samples and the baseline made for it.

    Prompts of a completion and answers kept for an Idempotency-Key go by a cascade. Raises NotFoundError, or
    ConflictError while the run is open or an arm of a study.
    """
    try:
        with ctx.database.session() as session:
            run = lock_run(session, run_id)
            if run.state in OPEN_RUN_STATES:
                raise ConflictError(f"the run is {run.state}: cancel it before you delete it")
            remove(ctx, session, run)
    except IntegrityError:
        raise ConflictError("the run is an arm of a study: delete the study") from None


def remove(ctx: Context, session: Session, run: Run) -> None:
    """Deletes the rows of an ended run and of its baseline in this session, and its live events after COMMIT."""
    baseline = run.measured.plain_run
    for row in (run, session.get(Run, uuid.UUID(baseline)) if baseline else None):
        if row is not None:
            session.delete(row)
    after_commit(session, ctx.bus.forget, run.id)
