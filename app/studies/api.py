"""REST of studies: the declared models check requests, services do the work, errors become problem documents."""

from __future__ import annotations

import uuid

from flask import Blueprint, Response, url_for
from pydantic import Field

from app.annotations.schemas import AnnotationChanges, ArchivedQuery
from app.core.states import Scope
from app.studies import audit, documents, export, progress, repository, service
from app.studies.analysis import AnalysisCache
from app.studies.audit import AuditDocument, AuditSpec
from app.studies.documents import StudyDocument, StudyOverview, StudyPage
from app.studies.export import MEDIA_TYPES, Format
from app.studies.schemas import StudySpec
from app.web.http.operations import declare_operation
from app.web.http.paging import split_rows
from app.web.http.request_context import get_context, get_session, get_singleton
from app.web.http.responses import send_download
from app.web.http.schemas import Budget, Margin, RequestModel
from app.web.http.security import require_scope
from evaluation.decisions import MARGIN

bp = Blueprint("studies_api", __name__, url_prefix="/api/v1")


class BudgetQuery(RequestModel):
    """A budget to answer for, too."""

    budget: Budget | None = Field(None, description="seconds, at most the study's: also says what holds at this budget")
    margin: Margin = Field(
        100 * MARGIN, description="points of Pass@First by which a cheaper arm may be worse and still be as good"
    )


class StudyExportQuery(RequestModel):
    """The format of an exported study."""

    format: Format = Field(
        "json", description="json: the document; csv: the curve of every arm; markdown: a report; archive: all "
        "samples, for `bassline study load`"
    )  # fmt: skip


@bp.post("/studies")
@require_scope(Scope.SUBMIT)
@declare_operation({201: StudyOverview})
def create(body: StudySpec) -> tuple[StudyOverview, dict[str, str]]:
    """Submits a study: a run for each arm. Its address is in the header Location."""
    study_id = service.submit(get_context(), body)
    return _overview(study_id), {"Location": url_for("studies_api.show", study_id=study_id)}


@bp.get("/studies")
@declare_operation({200: StudyPage})
def index(query: ArchivedQuery) -> StudyPage:
    """Studies, newest first, without what they say."""
    studies = repository.list_studies(
        get_session(), limit=query.limit + 1, before=query.parse_id(), archived=query.archived
    )
    page, following = split_rows(studies, query, lambda study: str(study.id))
    done = progress.compute_run_progress(get_session(), [arm.run_id for study in page for arm in study.arms])
    return StudyPage(studies=[documents.build_overview(study, done) for study in page], next=following)


@bp.get("/studies/<uuid:study_id>")
@declare_operation({200: StudyDocument})
def show(study_id: uuid.UUID, query: BudgetQuery) -> StudyDocument:
    """A study with its arms and what it says, over the tasks that all compared arms have graded."""
    study = repository.get_study(get_session(), study_id)
    said = get_singleton(AnalysisCache).get(get_session(), study)
    return documents.build_document(
        study, said, progress.compute_study_progress(get_session(), study), query.budget, query.margin / 100
    )


@bp.post("/audits")
@require_scope(Scope.SUBMIT)
@declare_operation({201: StudyOverview})
def create_audit(body: AuditSpec) -> tuple[StudyOverview, dict[str, str]]:
    """Submits an audit: a study with and without speculation, each twice. What it found is under `/audit` of it."""
    study_id = service.submit(get_context(), body.build_study(), command=body.build_command(), for_audit=True)
    return _overview(study_id), {"Location": url_for("studies_api.show_audit", study_id=study_id)}


@bp.get("/studies/<uuid:study_id>/audit")
@declare_operation({200: AuditDocument})
def show_audit(study_id: uuid.UUID) -> AuditDocument:
    """Whether speculation changes the texts, over those that are decoded so far."""
    return audit.build_audit_document(get_session(), repository.get_study(get_session(), study_id))


@bp.get("/studies/<uuid:study_id>/export")
@declare_operation({200: tuple(kind for kind, _ in MEDIA_TYPES.values())})
def export_(study_id: uuid.UUID, query: StudyExportQuery) -> Response:
    """A study as a file."""
    study = repository.get_study(get_session(), study_id)
    kind, ending = MEDIA_TYPES[query.format]
    chunks = export.export_study(
        get_context().database,
        get_session(),
        study,
        query.format,
        lambda: get_singleton(AnalysisCache).get(get_session(), study),
    )
    content_type = f"{kind}; charset=utf-8" if kind.startswith("text/") else kind
    return send_download(chunks, content_type, f"{study_id}.{ending}")


@bp.post("/studies/<uuid:study_id>/cancel")
@require_scope(Scope.SUBMIT)
@declare_operation({202: StudyOverview})
def cancel(study_id: uuid.UUID) -> StudyOverview:
    """Cancels a study; programs being judged end first, and samples are kept."""
    service.cancel(get_context(), study_id)
    return _overview(study_id)


@bp.post("/studies/<uuid:study_id>/resume")
@require_scope(Scope.SUBMIT)
@declare_operation({202: StudyOverview})
def resume(study_id: uuid.UUID) -> StudyOverview:
    """Queues the tasks that the arms of an ended study have not finished."""
    service.resume(get_context(), study_id)
    return _overview(study_id)


@bp.patch("/studies/<uuid:study_id>")
@require_scope(Scope.SUBMIT)
@declare_operation({200: StudyOverview})
def annotate(study_id: uuid.UUID, body: AnnotationChanges) -> StudyOverview:
    """Changes the note of a study, and whether it is archived with the runs of its arms."""
    service.annotate(get_context(), study_id, body)
    return _overview(study_id)


@bp.delete("/studies/<uuid:study_id>")
@require_scope(Scope.ADMIN)
@declare_operation({204: None})
def delete(study_id: uuid.UUID) -> None:
    """Deletes an ended study with the runs of its arms."""
    service.delete(get_context(), study_id)


def _overview(study_id: uuid.UUID) -> StudyOverview:
    # A new session: the request's own may have started before the change.
    with get_context().database.read() as fresh:
        study = repository.get_study(fresh, study_id)
        return documents.build_overview(study, progress.compute_study_progress(fresh, study))
