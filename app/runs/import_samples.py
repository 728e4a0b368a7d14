"""Samples that another tool made, as a run of ours: stored as decoded, then judged in our sandbox like any other."""

from __future__ import annotations

import shlex
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated, Any

from pydantic import Field, ValidationError, create_model
from sqlalchemy import update
from sqlalchemy.orm import Session

from app.background.handlers import JobAttempt
from app.background.jobs import open_job
from app.background.models import BackgroundJob
from app.background.work import run_job_or_cancel
from app.core.context import Context
from app.core.db.database import call_after_commit, execute_change
from app.core.db.types import generate_id, get_utc_time
from app.core.errors import BadInputError, ConflictError, TooLargeError
from app.core.settings import MAX_BUDGET_S, MIN_BUDGET_S
from app.core.states import RunKind, RunState, TaskState
from app.datasets import repository
from app.datasets import service as datasets
from app.runs import enqueue, hidden_runs
from app.runs.configuration import get_unknown_options
from app.runs.documents import FIELDS
from app.runs.models import Run
from app.runs.schemas import ImportSpec
from app.samples.models import Sample
from app.samples.transport import IMPORT, Seconds, list_file_types
from app.web.http.schemas import describe_fault
from evaluation import exchange

MAX_SAMPLES_OF_TASK = 10_000  # they are in memory together when they are judged
LONGEST_NAME = 200
_FIELDS: dict[str, Any] = {
    **{name: (kind | None, ...) for name, kind in list_file_types(Sample, IMPORT).items()},
    **dict.fromkeys(("queue_s", "sandbox_s"), (Seconds | None, ...)),
    "budget_s": (Annotated[float, Field(ge=MIN_BUDGET_S, le=MAX_BUDGET_S)] | None, ...),
}
StorableRecord = create_model("StorableRecord", **_FIELDS)
"""What a sample of a file may hold."""


def submit_import(
    ctx: Context,
    spec: ImportSpec,
    data: bytes,
    origin: str,
    *,
    pinned_worker: str | None = None,
    handover: bool = False,
) -> uuid.UUID:
    """Stores the samples in a file's bytes as a run and enqueues it. Returns its id.

    What the file, which errors call `origin`, does not say about decoding is stored as None (times), 0 (seeds, counts)
    or `get_unknown_options` (settings). A sample without a finish time counts for pass@k and for no budget. `handover`
    as in service.submit.

    The file is read twice, record by record: first all of it is checked, here; then a job stores it, which another
    worker finishes if this process is killed. Raises BadInputError naming line or sample, field and remedy, and
    TooLargeError.
    """
    origin = "".join(c for c in origin if c.isprintable())[:LONGEST_NAME] or "file"
    dataset = datasets.require_dataset(ctx, spec.dataset)
    content = datasets.to_evaluation_dataset(dataset, dataset.tasks)
    try:
        counts, budget_s = _count_samples(ctx, exchange.read_records(data, origin, content, FIELDS), origin)
    except exchange.FileTooLargeError as error:
        raise TooLargeError(str(error), "file") from None
    except exchange.ExchangeError as error:
        raise BadInputError(str(error), "file") from None
    run_id = generate_id()
    name = spec.name or f"{spec.target} ({origin})"[:LONGEST_NAME]
    arguments = {
        "run_ids": [str(run_id)],
        "origin": origin,
        "dataset_id": str(dataset.id),
        "columns": get_unknown_options()
        | {"target": spec.target, "n": max(counts.values()), "budget_s": budget_s or MAX_BUDGET_S}
        | {"name": name, "pinned_worker": pinned_worker},
        "task_ids": list(counts),
        "n_samples": counts.total(),
        "handover": handover,
    }
    run_job_or_cancel(ctx, open_job(ctx, ImportSamples.kind, name, arguments=arguments, input=data))
    return run_id


class ImportSamples(hidden_runs.ImportHandler):
    """Stores the samples of a file that `submit_import` has checked."""

    kind = "import_samples"

    def run(self, job: BackgroundJob, attempt: JobAttempt) -> dict[str, Any]:
        """Stores the hidden run, then its samples; the end of the job shows it."""
        given, database = job.arguments, attempt.ctx.database
        task_ids = set(given["task_ids"])
        run_id, origin = uuid.UUID(given["run_ids"][0]), given["origin"]
        with database.read() as session:
            dataset = repository.get_dataset(session, uuid.UUID(given["dataset_id"]))
            content = datasets.to_evaluation_dataset(dataset, dataset.tasks)
            tasks = [task for task in dataset.tasks if task.task_id in task_ids]
        now = get_utc_time()
        run = Run(
            id=run_id,
            dataset_id=dataset.id,
            **given["columns"],
            n_tasks=len(tasks),
            command=shlex.join(["bassline", "runs", "import", origin, "--target", given["columns"]["target"]]),
            started_at=now,
            provenance={"source": origin},
        )
        common = {"run_id": run_id, "state": TaskState.DECODED, "queued_at": now}
        rows = [common | {"id": generate_id(), "task_pk": task.id, "position": i} for i, task in enumerate(tasks)]
        hidden_runs.store_hidden_run(attempt, run, rows)
        run_tasks = hidden_runs.map_job_ids(database, run_id)
        records = exchange.read_records(job.input or b"", origin, content, FIELDS)
        samples = (_build_sample_columns(run_id, run_tasks, record) for record in records)
        hidden_runs.store_samples(attempt, samples, given["n_samples"])
        attempt.on_finish = partial(_enqueue_imported_run, attempt.ctx, run_id, given["handover"])
        return {"run_id": str(run_id)}


def _count_samples(
    ctx: Context, records: Iterable[exchange.SampleRecord], origin: str
) -> tuple[Counter[str], float | None]:
    """(number of samples of each task, budget that the first names). Raises for what cannot be stored."""
    counts: Counter[str] = Counter()
    budget_s, limit = None, ctx.settings.import_samples
    for number, record in enumerate(records):
        if number >= limit:
            raise TooLargeError(
                f"{origin} holds more than {limit:,} samples: split it, or raise BASSLINE_IMPORT_SAMPLES", "file"
            )
        _check_storable(record, origin)
        task_id = record["task_id"]
        counts[task_id] += 1
        if counts[task_id] > MAX_SAMPLES_OF_TASK:
            raise TooLargeError(
                f"{origin} holds more than {MAX_SAMPLES_OF_TASK:,} samples of {task_id}: split it", "file"
            )
        if not number:
            budget_s = record.get("budget_s")
    return counts, budget_s


def _enqueue_imported_run(ctx: Context, run_id: uuid.UUID, handover: bool, session: Session) -> None:
    """Makes the stored run one like any other, and enqueues it."""
    now = get_utc_time()
    shown = {
        "kind": RunKind.IMPORTED, "state": RunState.QUEUED, "error": None, "finished_at": None, "started_at": now,
        "enqueued_at": None if handover else now,
    }  # fmt: skip
    if not execute_change(session, update(Run).where(Run.id == run_id).values(**shown)):
        raise ConflictError("the run was deleted while its samples were stored")
    if not handover:
        call_after_commit(session, enqueue.enqueue_preparation, ctx, run_id)


def _check_storable(record: exchange.SampleRecord, origin: str) -> None:
    """Raises BadInputError for a value that no sample can have or that a database column cannot hold."""
    try:
        StorableRecord.model_validate(record)
    except ValidationError as error:
        fault = error.errors()[0]
        where = f"{origin}, sample {record['index']} of {record['task_id']}, field {fault['loc'][0]}"
        raise BadInputError(describe_fault(where, fault), "file") from None


def _build_sample_columns(
    run_id: uuid.UUID, run_tasks: Mapping[str, uuid.UUID], record: exchange.SampleRecord
) -> dict[str, Any]:
    """The record as a row of samples; every row has the same columns, so that one statement inserts them all."""
    unknown = {"seed": 0, "raw": "", "finish_reason": "stop", "n_tokens": 0, "n_rounds": 0, "n_drafted": 0,
               "n_accepted": 0}  # fmt: skip
    return {
        "run_id": run_id,
        "run_task_id": run_tasks[record["task_id"]],
        **{
            name: unknown.get(name) if record[name] is None else record[name]
            for name in list_file_types(Sample, IMPORT)
        },
    }
