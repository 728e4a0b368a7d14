"""The page of background jobs."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from flask import Blueprint, redirect, render_template, url_for
from werkzeug.wrappers import Response

from app.background import jobs
from app.core.context import Context
from app.core.errors import ConflictError
from app.core.states import OPEN_BACKGROUND_JOB_STATES, Scope
from app.web.http.request_context import get_context
from app.web.http.security import require_scope

bp = Blueprint("jobs", __name__)
SHOWN = 200


@bp.get("/jobs")
def index() -> str:
    """The latest jobs, with a button to cancel or retry each."""
    return _render_jobs()


@bp.post("/jobs/<uuid:job_id>/cancel")
@require_scope(Scope.SUBMIT)
def cancel(job_id: uuid.UUID) -> Response | tuple[str, int]:
    """Cancels a job: it ends after its step."""
    return _change(job_id, jobs.cancel)


@bp.post("/jobs/<uuid:job_id>/retry")
@require_scope(Scope.SUBMIT)
def retry(job_id: uuid.UUID) -> Response | tuple[str, int]:
    """Queues a job again that failed or was cancelled."""
    return _change(job_id, jobs.retry)


def _change(job_id: uuid.UUID, change: Callable[[Context, uuid.UUID], None]) -> Response | tuple[str, int]:
    try:
        change(get_context(), job_id)
    except ConflictError as fault:
        return _render_jobs(str(fault)), fault.status
    return redirect(url_for("jobs.index"), 303)


def _render_jobs(fault: str = "") -> str:
    with get_context().database.read() as fresh:
        rows = jobs.list_jobs(fresh, limit=SHOWN)
    return render_template("background/index.html", rows=rows, fault=fault, open_states=OPEN_BACKGROUND_JOB_STATES)
