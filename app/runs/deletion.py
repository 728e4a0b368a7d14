"""Deletes runs for good: rows, samples, live events and the stored answers about them."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Sequence

from sqlalchemy import update
from sqlalchemy.orm import Session

from app.background.handlers import UnfinishedError
from app.background.leases import LostClaimError
from app.background.work import work
from app.core.context import Context
from app.core.db.database import after_commit
from app.core.db.references import count_references
from app.core.errors import ConflictError
from app.core.states import OPEN_RUN_STATES, RunKind
from app.runs import hidden_runs
from app.runs.models import BEING_DELETED, Run
from app.runs.repository import lock_run


def delete(ctx: Context, run_id: uuid.UUID) -> None:
    """Removes an ended run with its jobs, its samples and the baseline made for it.

    Raises NotFoundError, or ConflictError while the run is open or an arm of a study.
    """
    with ctx.database.session() as session:
        run = lock_run(session, run_id)
        if run.state in OPEN_RUN_STATES:
            raise ConflictError(f"the run is {run.state}: cancel it before you delete it")
        if count_references(session, run):
            raise ConflictError("the run is an arm of a study: delete the study")
        job_id = hide(ctx, session, [run])
    finish(ctx, job_id)


def hide(ctx: Context, session: Session, runs: Sequence[Run]) -> uuid.UUID:
    """Hides ended runs and their baselines, and forgets their live events after COMMIT. Returns the id of the job that
    deletes them, for the caller to work: samples go in short steps, so that others write meanwhile."""
    ids = [run.id for run in runs] + [uuid.UUID(run.measured.plain_run) for run in runs if run.measured.plain_run]
    for run_id in ids:
        after_commit(session, ctx.bus.forget, run_id)
    hidden = update(Run).where(Run.id.in_(ids)).values(kind=RunKind.BASELINE, error=BEING_DELETED)
    session.execute(hidden, execution_options={"synchronize_session": False})
    return hidden_runs.remove_runs(session, ids)


def finish(ctx: Context, job_id: uuid.UUID) -> None:
    """Works a deletion now; where this process stops, or another one was faster, a worker does it."""
    with contextlib.suppress(UnfinishedError, LostClaimError):
        work(ctx, job_id)
