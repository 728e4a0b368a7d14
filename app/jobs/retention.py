"""Deletes data past its time: completions, ended jobs, expired sessions. The reaper's thread calls it."""

from __future__ import annotations

import contextlib
import datetime as dt
import uuid
from collections.abc import Sequence

from sqlalchemy import delete, func, select

from app.accounts.models import BrowserSession
from app.background.models import BackgroundJob
from app.core.context import Context
from app.core.db.types import get_utc_time
from app.core.errors import ConflictError, NotFoundError
from app.core.states import OPEN_BACKGROUND_JOB_STATES, OPEN_RUN_STATES
from app.runs import hidden_runs
from app.runs.models import Run
from app.runs.policy import is_interactive

JOBS_KEPT = dt.timedelta(days=30)  # after their end


def delete_expired(ctx: Context) -> None:
    """Deletes what is past its time. Two processes may do so at once."""
    for run_id in _find_old_completions(ctx):
        with contextlib.suppress(NotFoundError, ConflictError):  # deleted or resumed in the meantime
            hidden_runs.delete_run(ctx, run_id)
    now = get_utc_time()
    ended = (BackgroundJob.state.not_in(OPEN_BACKGROUND_JOB_STATES), BackgroundJob.finished_at < now - JOBS_KEPT)
    with ctx.database.session() as session:
        session.execute(delete(BackgroundJob).where(*ended))
        session.execute(delete(BrowserSession).where(BrowserSession.expires_at < now))


def _find_old_completions(ctx: Context) -> Sequence[uuid.UUID]:
    days = ctx.settings.completion_days
    if not days:
        return ()
    ended = func.coalesce(Run.finished_at, Run.created_at)
    with ctx.database.read() as session:
        return session.scalars(
            select(Run.id).where(
                is_interactive(),
                Run.state.not_in(OPEN_RUN_STATES),
                ended < get_utc_time() - dt.timedelta(days=days),
            )
        ).all()
