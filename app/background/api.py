"""REST of background jobs."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from typing import Any

from flask import Blueprint
from pydantic import Field

from app.background import jobs
from app.core.context import Context
from app.core.states import BackgroundJobState, Scope
from app.web.http.operations import declare_operation
from app.web.http.paging import PageQuery, split_rows
from app.web.http.request_context import get_context, get_session
from app.web.http.schemas import ResponseModel
from app.web.http.security import require_scope

bp = Blueprint("jobs_api", __name__, url_prefix="/api/v1")


class JobDocument(ResponseModel):
    """A piece of background work: what it is, who does it, and how far it is."""

    id: uuid.UUID
    kind: str
    subject: str
    state: BackgroundJobState
    done: int
    total: int = Field(description="0 while it is not known")
    message: str
    attempt: int = Field(description="claims since a step was last stored")
    claimed_by: str | None = Field(description="the worker that claimed it last")
    lease_until: dt.datetime | None
    error: str | None
    created_at: dt.datetime
    started_at: dt.datetime | None
    finished_at: dt.datetime | None


class JobWithResult(JobDocument):
    """A job with what it was given, where it would resume, and what came of it."""

    arguments: dict[str, Any]
    cursor: dict[str, Any]
    result: dict[str, Any] | None


class JobQuery(PageQuery):
    """The query of the list."""

    state: BackgroundJobState | None = None


class JobPage(ResponseModel):
    """Jobs, the latest first. Ended ones are kept for 30 days."""

    jobs: list[JobDocument]
    next: str | None


@bp.get("/jobs")
@declare_operation({200: JobPage})
def index(query: JobQuery) -> JobPage:
    """Background work: checks of datasets, imports, deletions, translations, trainings."""
    rows = jobs.list_jobs(get_session(), query.state, limit=query.limit + 1, before=query.parse_id())
    page, following = split_rows(rows, query, lambda job: str(job.id))
    return JobPage(jobs=[JobDocument.from_row(job) for job in page], next=following)


@bp.get("/jobs/<uuid:job_id>")
@declare_operation({200: JobWithResult})
def show(job_id: uuid.UUID) -> JobWithResult:
    """A job in full."""
    return JobWithResult.from_row(jobs.get_job(get_session(), job_id))


@bp.post("/jobs/<uuid:job_id>/cancel")
@require_scope(Scope.SUBMIT)
@declare_operation({202: JobDocument})
def cancel(job_id: uuid.UUID) -> JobDocument:
    """Cancels a job: it ends after its step. What an import has stored is removed."""
    return _change(job_id, jobs.cancel)


@bp.post("/jobs/<uuid:job_id>/retry")
@require_scope(Scope.SUBMIT)
@declare_operation({202: JobDocument})
def retry(job_id: uuid.UUID) -> JobDocument:
    """Queues a job again that failed or was cancelled. It goes on where it was."""
    return _change(job_id, jobs.retry)


def _change(job_id: uuid.UUID, change: Callable[[Context, uuid.UUID], None]) -> JobDocument:
    change(get_context(), job_id)
    with get_context().database.read() as fresh:
        return JobDocument.from_row(jobs.get_job(fresh, job_id))
