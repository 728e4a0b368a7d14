"""Rows of the database as the documents of app/runs/documents.py: one shape for the API, `--json` and exports."""

from __future__ import annotations

from typing import Any

from app.runs.documents import RunDocument, RunInfo, SampleDocument
from app.runs.figures import in_budget_s
from app.runs.models import Run
from app.samples.models import Sample
from app.web.http.schemas import ResponseModel
from evaluation.verdicts import failure_of


def run_of(run: Run) -> RunDocument:
    """The run with its figures."""
    data = run.dataset
    info = RunInfo.of(run, dataset=data.name, dataset_sha256=data.sha256, dataset_tasks=data.n_tasks)
    return RunDocument(run=info, figures=run.measured)


def sample_of(task_id: str, sample: Sample) -> SampleDocument:
    """One sample of the task."""
    return SampleDocument.of(
        sample,
        task_id=task_id,
        finished_s=in_budget_s(sample),
        failure=_failure(sample),
        detail=sample.verdict_detail,
    )


def run_document(run: Run) -> dict[str, Any]:
    """`{"run": {id, name, state, configuration...}, "figures": {...}}`, ready for JSON."""
    return plain(run_of(run))


def sample_document(task_id: str, sample: Sample) -> dict[str, Any]:
    """One sample as `runs export --format samples` writes it, ready for JSON."""
    return plain(sample_of(task_id, sample))


def plain(document: ResponseModel) -> dict[str, Any]:
    """The document as JSON, without the fields that were not set."""
    return document.model_dump(mode="json", exclude_unset=True)


def _failure(sample: Sample) -> str | None:
    if sample.verdict is None:
        return None
    return failure_of(sample.verdict, sample.verdict_detail or "", in_budget_s(sample) is not None)
