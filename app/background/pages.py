"""The page of background jobs."""

from __future__ import annotations

import uuid

from flask import Blueprint, redirect, render_template, url_for
from werkzeug.wrappers import Response

from app.background import jobs
from app.errors import ConflictError
from app.http.security import needs
from app.http.web import context
from app.states import OPEN_JOB_STATES, Scope

bp = Blueprint("jobs", __name__)
ACTIONS = {"cancel": jobs.cancel, "retry": jobs.retry}
SHOWN = 200


@bp.get("/jobs")
def index() -> str:
    """The latest jobs, with a button to cancel or retry each."""
    return _page()


@bp.post("/jobs/<uuid:job_id>/<any(cancel, retry):action>")
@needs(Scope.ADMIN)
def change(job_id: uuid.UUID, action: str) -> Response | tuple[str, int]:
    """Cancels a job, or queues it again."""
    try:
        ACTIONS[action](context(), job_id)
    except ConflictError as fault:
        return _page(str(fault)), fault.status
    return redirect(url_for("jobs.index"), 303)


def _page(fault: str = "") -> str:
    with context().database.read() as fresh:
        rows = jobs.list_jobs(fresh, limit=SHOWN)
    return render_template("background/index.html", rows=rows, fault=fault, open_states=OPEN_JOB_STATES)
