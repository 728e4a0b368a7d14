"""Samples that another tool made, as a run of ours: stored as decoded, then judged in our sandbox like any other."""

from __future__ import annotations

import math
import re
import shlex
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

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
from app.runs.export_samples import FIELDS
from app.runs.models import Run
from app.runs.schemas import ImportSpec
from app.samples.models import FINISH_REASONS, Sample
from app.samples.transport import IMPORT, MAX_COUNT, MAX_LOGPROB, MAX_SECONDS, list_column_names
from decoding.suggest import suggest_one_of
from evaluation import exchange

MAX_SAMPLES_OF_TASK = 10_000  # they are in memory together when they are judged
LONGEST_NAME = 200
_LENGTHS = {name: getattr(Sample.__table__.c[name].type, "length", None) for name in list_column_names(Sample, IMPORT)}
LONGEST = {name: length for name, length in _LENGTHS.items() if length}
"""Characters of a value, where its column has a limit."""
SECONDS = ("queue_s", "first_token_s", "finished_s", "sandbox_s")
BOUNDS = {
    "seed": (0, 2**63 - 1),
    "mean_logprob": (-MAX_LOGPROB, MAX_LOGPROB),
    **dict.fromkeys(SECONDS, (0, MAX_SECONDS)),
}
"""The least and the largest value of a number that is not a count."""


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
    if fault := next(_find_faults(record), None):
        raise BadInputError(f"{origin}, sample {record['index']} of {record['task_id']}, field {fault}", "file")


def _find_faults(record: exchange.SampleRecord) -> Iterator[str]:
    for field, value in record.items():
        low, high = BOUNDS.get(field, (0, MAX_COUNT))
        if isinstance(value, float) and not math.isfinite(value):
            yield f"{field}: is {value}, give a number or null"
        elif isinstance(value, int | float) and not low <= value <= high:
            given = value if isinstance(value, float) else f"{value:.3g}" if abs(value) < 2**64 else "a huge number"
            unit = " s" if field in SECONDS else ""
            yield f"{field}: is {given}{unit}, give {low} to {high}"
        elif isinstance(value, str) and len(value) > LONGEST.get(field, len(value)):
            yield f"{field}: has {len(value)} characters, give at most {LONGEST[field]}"
        elif isinstance(value, str) and re.search("[\ud800-\udfff]", value):
            yield f"{field}: holds half a character (a lone surrogate), write valid Unicode"
    reason, budget_s = record["finish_reason"], record["budget_s"]
    if reason is not None and reason not in FINISH_REASONS:
        yield f"finish_reason: is {reason!r}: {suggest_one_of(reason, FINISH_REASONS)}"
    if budget_s is not None and not MIN_BUDGET_S <= budget_s <= MAX_BUDGET_S:
        yield f"budget_s: is {budget_s}, give {MIN_BUDGET_S:g} to {MAX_BUDGET_S:g} seconds"


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
            for name in list_column_names(Sample, IMPORT)
        },
    }
