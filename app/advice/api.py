"""REST of advice about a project."""

from __future__ import annotations

import uuid

from flask import Blueprint, Response, request, url_for
from pydantic import ConfigDict, Field

from app.advice import service
from app.advice.report import build_report, format_report
from app.advice.schemas import AdviceJob, AdviceSpec
from app.advice.service import UploadedProject
from app.background.jobs import get_job
from app.core.states import Scope
from app.datasets.api import Upload
from app.studies.analysis import AnalysisCache
from app.studies.repository import get_study
from app.web.http.operations import declare_operation
from app.web.http.request_context import get_context, get_session, get_singleton
from app.web.http.security import require_scope
from app.web.http.sites import refuse_other_users

bp = Blueprint("advice_api", __name__, url_prefix="/api/v1")

MARKDOWN = "text/markdown"


class AdviceForm(AdviceSpec):
    """A project in a folder of the server, or in an archive."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    file: Upload | None = Field(None, description="the project as .zip or .tar.gz; its tests run in the sandbox alone")


@bp.post("/try")
@require_scope(Scope.SUBMIT)
@declare_operation({202: AdviceJob})
def create(form: AdviceForm) -> tuple[AdviceJob, dict[str, str]]:
    """Tries models on a project: makes tasks of its code and lets the models take turns over them.

    It is a job: `/api/v1/jobs` cancels and retries it, too.
    """
    if form.path:
        refuse_other_users(request)
    archive = UploadedProject(form.file.filename or "file", form.file.read()) if form.file is not None else None
    job_id = service.submit(get_context(), AdviceSpec(**form.model_dump(exclude={"file"})), archive)
    with get_context().database.read() as fresh:
        described = service.describe_job(fresh, get_job(fresh, job_id))
    return described, {"Location": url_for("advice_api.show", job_id=job_id)}


@bp.get("/try/<uuid:job_id>")
@declare_operation({200: AdviceJob})
def show(job_id: uuid.UUID) -> AdviceJob:
    """How far the work on a project is, and what it advises."""
    return service.describe_job(get_session(), get_job(get_session(), job_id))


@bp.get("/studies/<uuid:study_id>/advice")
@declare_operation({200: MARKDOWN})
def report(study_id: uuid.UUID) -> Response:
    """What a study over a project's tasks advises, as a report."""
    study = get_study(get_session(), study_id)
    found = build_report(get_session(), study, get_singleton(AnalysisCache).get(get_session(), study))
    answer = Response(format_report(found), content_type=f"{MARKDOWN}; charset=utf-8")
    answer.headers["Content-Disposition"] = 'attachment; filename="advice.md"'
    return answer
