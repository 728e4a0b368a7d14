"""Pages of Try my code: the form, the work on a project, and the report."""

from __future__ import annotations

import uuid

from flask import Blueprint, redirect, render_template, request, url_for
from pydantic import ValidationError
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response

from app.advice import service
from app.advice.report import build_report, describe_coverage
from app.advice.schemas import AdviceSpec
from app.advice.service import KIND, STEPS, UploadedProject
from app.advice.study import list_ready_models
from app.background.jobs import get_job, list_jobs
from app.core.errors import BadInputError
from app.core.states import OPEN_BACKGROUND_JOB_STATES, BackgroundJobState, Scope
from app.runs.forms import map_field_error
from app.runs.quiet import QUIET_LIMIT_S
from app.studies.analysis import AnalysisCache
from app.studies.repository import get_study
from app.web.http.limits import UPLOAD_BYTES
from app.web.http.request_context import get_context, get_session, get_singleton
from app.web.http.schemas import describe_fault
from app.web.http.security import require_scope
from app.web.http.sites import refuse_other_users
from evaluation.from_code.source.uploaded import ARCHIVE_SUFFIXES

bp = Blueprint("advice", __name__)
_EARLIER = 10  # projects listed under the form

LABELS = {
    "path": "Folder of the project",
    "python": "Interpreter",
    "file": "Archive of the project",
    "requirements": "Requirements",
    "tests": "Command of the tests",
    "target": "Models",
    "budget_s": "Budget per answer, seconds",
    "n": "Samples per task",
    "minutes": "Total minutes, approximately",
    "name": "Name of the dataset",
}


@bp.get("/try")
def new() -> str:
    """The form, with the defaults."""
    fields = AdviceSpec.model_fields
    values = MultiDict({name: f"{fields[name].default:g}" for name in ("budget_s", "n", "minutes")})
    values["tests"], values["wait_for_quiet"] = fields["tests"].default, "true"
    values.setlist("target", list_ready_models(get_context()))
    return _render_form(values, {})


@bp.post("/try")
@require_scope(Scope.SUBMIT)
def create() -> Response | tuple[str, int]:
    """Starts the work and shows it; an invalid form is shown again."""
    form, file = request.form, request.files.get("file")
    given = {name: form[name].strip() for name in LABELS if name != "file" and form.get(name, "").strip()}
    given["target"] = " ".join(" ".join(form.getlist("target")).replace(",", " ").split())
    if "wait_for_quiet" in form:
        given["quiet_limit_s"] = str(QUIET_LIMIT_S)
    if "path" in given:
        refuse_other_users(request)
    archive = UploadedProject(file.filename, file.read()) if file is not None and file.filename else None
    try:
        job_id = service.submit(get_context(), AdviceSpec.model_validate(given), archive)
    except ValidationError as error:
        faults = {str(fault["loc"][0]): fault for fault in reversed(error.errors())}
        return _render_form(form, {name: describe_fault(LABELS[name], fault) for name, fault in faults.items()}), 422
    except BadInputError as fault:
        return _render_form(form, map_field_error(fault, LABELS)), fault.status
    return redirect(url_for("advice.show", job_id=job_id), 303)


@bp.get("/try/<uuid:job_id>")
def show(job_id: uuid.UUID) -> str:
    """How far the work on a project is. Raises NotFoundError."""
    job = get_job(get_session(), job_id)
    found, names = service.describe_job(get_session(), job), list(STEPS)
    reached = len(names) if job.state is BackgroundJobState.FINISHED else names.index(found.step)
    is_open = job.state in OPEN_BACKGROUND_JOB_STATES
    return render_template(
        "advice/show.html", job=job, found=found, steps=STEPS.values(), reached=reached, is_open=is_open
    )


@bp.get("/try/report/<uuid:study_id>")
def report(study_id: uuid.UUID) -> str:
    """What a study over a project's tasks advises. Raises NotFoundError."""
    study = get_study(get_session(), study_id)
    found = build_report(get_session(), study, get_singleton(AnalysisCache).get(get_session(), study))
    return render_template(
        "advice/report.html",
        study=study,
        found=found,
        coverage=describe_coverage(found.coverage) if found.coverage else "",
        runs={arm.name: arm.run_id for arm in study.arms},
        labels={arm.name: arm.name for arm in study.arms},
    )


def _render_form(values: MultiDict[str, str], errors: dict[str, str]) -> str:
    chosen = [word for text in values.getlist("target") for word in text.replace(",", " ").split()]
    return render_template(
        "advice/new.html",
        values=values,
        errors=errors,
        labels=LABELS,
        local=service.can_accept_paths(get_context().settings),
        models=[(model, "") for model in list_ready_models(get_context())],
        chosen=chosen,
        endings=", ".join(ARCHIVE_SUFFIXES),
        upload_mib=UPLOAD_BYTES // 2**20,
        earlier=list_jobs(get_session(), kind=KIND, limit=_EARLIER),
    )
