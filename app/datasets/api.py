"""REST of datasets."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Annotated, Any

from flask import Blueprint, url_for
from pydantic import ConfigDict, Field, InstanceOf, WithJsonSchema
from werkzeug.datastructures import FileStorage

from app.core.db.storable import InputText
from app.core.states import DatasetKind, Scope
from app.datasets import repository, service
from app.web.http.operations import declare_operation
from app.web.http.paging import PageQuery, split_rows
from app.web.http.request_context import get_context, get_session
from app.web.http.schemas import RequestModel, ResponseModel
from app.web.http.security import require_scope

bp = Blueprint("datasets_api", __name__, url_prefix="/api/v1")

Upload = Annotated[InstanceOf[FileStorage], WithJsonSchema({"type": "string", "format": "binary"})]


class DatasetDocument(ResponseModel):
    """A named list of tasks, identified by its content. A name refers to the newest dataset of that name."""

    id: uuid.UUID
    name: str
    sha256: str
    kind: DatasetKind
    n_tasks: int
    created_at: dt.datetime


class DatasetPage(ResponseModel):
    """Datasets, the latest stored first."""

    datasets: list[DatasetDocument]
    next: str | None


class TaskDocument(ResponseModel):
    """One problem, in HumanEval's fields."""

    task_id: str
    position: int
    prompt: str
    entry_point: str
    test: str
    canonical_solution: str
    suffix: str | None
    stop: list[str]
    program_prefix: str | None
    source: dict[str, Any] | None = Field(description="`trust`: in-guest where the program can forge its verdict")
    project_tests: dict[str, Any] | None = Field(description="where the project's own tests judge: which ones, on what")
    language: str
    signature: dict[str, Any] | None = Field(description="of a task in a language other than Python")
    cases: list[dict[str, Any]] | None = Field(description="arguments and results in place of a test")


class CheckDocument(ResponseModel):
    """The canonical solutions, run in one kind of sandbox."""

    sandbox: str
    failed: list[str] = Field(description="ids of the tasks whose own solution fails; runs leave them out")
    checked_at: dt.datetime


class DatasetWithTasks(DatasetDocument):
    """A dataset and a page of its tasks, in their order."""

    judged_by: dict[str, int] = Field(description="which fields of the file decide, and for how many tasks")
    not_used: dict[str, int] = Field(description="fields of the file that play no part, and in how many tasks")
    checks: list[CheckDocument] = Field(description="empty: the first run checks the canonical solutions")
    tasks: list[TaskDocument]
    next: str | None


class DatasetImportForm(RequestModel):
    """A file to import."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    file: Upload = Field(
        description="JSON lines in HumanEval's, MBPP's, MultiPL-E's or HumanEval-X's form, plain or gzipped"
    )
    name: InputText | None = Field(None, min_length=1, max_length=200, description="default: the name of the file")


@bp.get("/datasets")
@declare_operation({200: DatasetPage})
def index(query: PageQuery) -> DatasetPage:
    """Stored datasets. A built-in one is stored on first use."""
    rows = repository.load_datasets_page(get_session(), limit=query.limit + 1, before=query.parse_id())
    page, following = split_rows(rows, query, lambda dataset: str(dataset.id))
    return DatasetPage(datasets=[DatasetDocument.from_row(dataset) for dataset in page], next=following)


@bp.post("/datasets")
@require_scope(Scope.SUBMIT)
@declare_operation({201: DatasetDocument})
def import_(form: DatasetImportForm) -> tuple[DatasetDocument, dict[str, str]]:
    """Checks a file and stores it as a dataset; the same content twice is stored once.

    No solution is run: the first run over the dataset runs the canonical ones, and leaves out tasks whose own fails.
    """
    origin = form.file.filename or "file"
    dataset = service.import_bytes(get_context(), form.file.read(), form.name or origin.split(".")[0], origin)
    return DatasetDocument.from_row(dataset), {"Location": url_for("datasets_api.show", dataset_id=dataset.id)}


@bp.get("/datasets/<uuid:dataset_id>")
@declare_operation({200: DatasetWithTasks})
def show(dataset_id: uuid.UUID, query: PageQuery) -> DatasetWithTasks:
    """A dataset and its tasks."""
    dataset = repository.get_dataset(get_session(), dataset_id)
    (after,) = query.parse_numbers(1) or (None,)
    rows = repository.load_tasks_page(get_session(), dataset_id, limit=query.limit + 1, after=after)
    page, following = split_rows(rows, query, lambda task: str(task.position))
    checks = [CheckDocument.from_row(check) for check in repository.load_checks(get_session(), dataset_id)]
    use = repository.find_field_use(get_session(), dataset_id)
    fields = {"judged_by": dict(use.judged_by), "not_used": dict(use.not_used)}
    return DatasetWithTasks.from_row(
        dataset, **fields, checks=checks, tasks=[TaskDocument.from_row(task) for task in page], next=following
    )


@bp.delete("/datasets/<uuid:dataset_id>")
@require_scope(Scope.ADMIN)
@declare_operation({204: None})
def delete(dataset_id: uuid.UUID) -> None:
    """Deletes a dataset that no run and no study uses, with the project's files that only it needs."""
    service.delete_dataset(get_context(), dataset_id)
