"""The pages of datasets and tasks, and the form to import a dataset."""

from __future__ import annotations

import uuid
from typing import Any

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from app.core.errors import BadInputError, ConflictError, NotFoundError
from app.core.states import Scope
from app.datasets import repository, service
from app.web.http.limits import UPLOAD_BYTES
from app.web.http.request_context import get_context, get_session
from app.web.http.security import may_use, require_scope
from app.web.ui.display import label_field

bp = Blueprint("datasets", __name__)

LABELS = {"file": "File", "name": "Name"}


@bp.get("/datasets")
def index() -> str:
    """Every stored dataset."""
    return _render_datasets("", {})


@bp.post("/datasets")
@require_scope(Scope.SUBMIT)
def upload() -> Response | tuple[str, int]:
    """Stores an uploaded file as a dataset and shows it; an invalid file gets line, field and remedy."""
    file, name = request.files.get("file"), request.form.get("name", "").strip()
    try:
        if file is None or not file.filename:
            raise BadInputError("file is missing: choose a .jsonl or .jsonl.gz file", "file")
        origin = file.filename
        stored = service.import_bytes(get_context(), file.read(), name or origin.split(".")[0], origin)
    except BadInputError as fault:
        field = "name" if fault.field == "name" else "file"
        return _render_datasets(name, {field: label_field(str(fault), field, LABELS[field])}), fault.status
    return redirect(url_for("datasets.show", dataset_id=stored.id), 303)


@bp.post("/datasets/<uuid:dataset_id>/delete")
@require_scope(Scope.ADMIN)
def delete(dataset_id: uuid.UUID) -> Response | tuple[str, int]:
    """Removes a dataset that no run and no study uses."""
    try:
        service.delete_dataset(get_context(), dataset_id)
    except ConflictError as fault:
        return _render_dataset(dataset_id, f"Nothing was deleted: {fault}"), fault.status
    return redirect(url_for("datasets.index"), 303)


@bp.get("/datasets/<uuid:dataset_id>")
def show(dataset_id: uuid.UUID) -> str:
    """The tasks of a dataset, or with `?task=` one of them. Raises NotFoundError."""
    return _render_dataset(dataset_id)


@bp.get("/datasets/<uuid:dataset_id>/left-out")
def left_out(dataset_id: uuid.UUID) -> str:
    """The functions or tasks that were left out, by reason, the most frequent first. Raises NotFoundError."""
    dataset = repository.get_dataset(get_session(), dataset_id)
    groups: dict[str, list[dict[str, Any]]] = {}
    for function in dataset.left_out or []:
        groups.setdefault(function["reason"], []).append(function)
    by_reason = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    return render_template("datasets/left_out.html", dataset=dataset, by_reason=by_reason)


def _render_dataset(dataset_id: uuid.UUID, fault: str = "") -> str:
    dataset = repository.get_dataset(get_session(), dataset_id)
    wanted = request.args.get("task")
    task = next((t for t in dataset.tasks if t.task_id == wanted), None)
    if wanted and task is None:
        raise NotFoundError(f"dataset {dataset.name} has no task {wanted[:200]!r}")
    from_code = bool(dataset.tasks) and all(_is_from_code(t.source) for t in dataset.tasks)
    return render_template(
        "datasets/show.html",
        dataset=dataset,
        task=task,
        from_code=from_code,
        fault=fault,
        coverage=dataset.coverage if from_code and not task else None,
        checks=repository.load_checks(get_session(), dataset_id),
        fields=repository.summarize_fields((t.source, t.signature) for t in dataset.tasks).describe(dataset.n_tasks),
        may_delete=may_use("datasets.delete"),
    )


def _is_from_code(source: dict[str, Any] | None) -> bool:
    """Whether a task names its origin in the form of `bassline datasets from-code`; any file may claim so."""
    wanted = {"file": str, "line": int, "mutation_score": int | float, "weak": bool}
    return (
        source is not None
        and all(isinstance(source.get(name), kind) for name, kind in wanted.items())
        and any(isinstance(source.get(name), int) for name in ("cases", "tests"))
    )


def _render_datasets(name: str, errors: dict[str, str]) -> str:
    with get_context().database.read() as fresh:
        rows = repository.list_datasets(fresh)
    return render_template(
        "datasets/index.html",
        rows=rows,
        name=name,
        errors=errors,
        labels=LABELS,
        upload_bytes=UPLOAD_BYTES,
    )
