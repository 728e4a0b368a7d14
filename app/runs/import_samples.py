"""Samples that another tool made, as a run of ours: stored as decoded, then judged in our sandbox like any other."""

from __future__ import annotations

import math
import re
import shlex
import uuid

from app.context import Context
from app.datasets import service as datasets
from app.db.database import after_commit
from app.db.ids import new_id
from app.db.types import utcnow
from app.errors import BadInputError
from app.runs import enqueue, indexing
from app.runs.configuration import unknown_options
from app.runs.export_samples import FIELDS
from app.runs.models import Run, RunTask
from app.runs.schemas import ImportSpec
from app.samples.bounds import MAX_COUNT, MAX_LOGPROB, MAX_SECONDS
from app.samples.models import FINISH_REASONS, Sample
from app.samples.transport import IMPORT, names
from app.settings import MAX_BUDGET_S, MIN_BUDGET_S
from app.states import RunKind, TaskState
from decoding.suggest import one_of
from evaluation import datasets as files
from evaluation import exchange

LONGEST_NAME = 200
LONGEST = {"extraction": 20, "extraction_version": 40}  # characters
SECONDS = ("queue_s", "first_token_s", "finished_s", "sandbox_s")
BOUNDS = {
    "seed": (0, 2**63 - 1),
    "mean_logprob": (-MAX_LOGPROB, MAX_LOGPROB),
    **dict.fromkeys(SECONDS, (0, MAX_SECONDS)),
}
"""The least and the largest value of a number that is not a count."""


def submit(
    ctx: Context,
    spec: ImportSpec,
    data: bytes,
    origin: str,
    *,
    pinned_worker: str | None = None,
    handover: bool = False,
) -> uuid.UUID:
    """Stores the samples in a file's bytes as a run and enqueues it. Returns its id.

    What the file, which errors call `origin`, does not say about decoding (times, seeds, settings) stays unknown; a
    sample without a finish time counts for pass@k and for no budget. `handover` as in service.submit. Raises
    BadInputError naming line or sample, field and remedy.
    """
    origin = "".join(c for c in origin if c.isprintable())[:LONGEST_NAME] or "file"
    dataset = datasets.require(ctx, spec.dataset)
    content = files.Dataset(dataset.name, tuple(datasets.as_plain(t) for t in dataset.tasks), dataset.sha256)
    try:
        records = exchange.read(data, origin, content, FIELDS)
    except exchange.ExchangeError as error:
        raise BadInputError(str(error), "file") from None
    for record in records:
        _check_storable(record, origin)
    by_task: dict[str, list[exchange.Record]] = {}
    for record in records:
        by_task.setdefault(record["task_id"], []).append(record)
    now = utcnow()
    run = Run(
        id=new_id(),
        name=spec.name or f"{spec.target} ({origin})"[:LONGEST_NAME],
        kind=RunKind.IMPORTED,
        dataset_id=dataset.id,
        **unknown_options()
        | {
            "target": spec.target,
            "n": max(map(len, by_task.values())),
            "budget_s": records[0].get("budget_s") or MAX_BUDGET_S,
        },
        n_tasks=len(by_task),
        pinned_worker=pinned_worker,
        command=shlex.join(["bassline", "runs", "import", origin, "--target", spec.target]),
        enqueued_at=None if handover else now,
        started_at=now,
        provenance={"source": origin},
    )
    tasks = [t for t in dataset.tasks if t.task_id in by_task]
    run.tasks = [
        RunTask(
            task_pk=task.id,
            position=position,
            state=TaskState.DECODED,
            queued_at=now,
            samples=[_sample(run, record) for record in by_task[task.task_id]],
        )
        for position, task in enumerate(tasks)
    ]
    with ctx.database.session() as session:
        session.add(run)
        session.flush()
        indexing.store(session, run, [task.id for task in run.tasks])
        if not handover:
            after_commit(session, enqueue.prepare, ctx, run.id)
    return run.id


def _check_storable(record: exchange.Record, origin: str) -> None:
    """Raises BadInputError for a value that no sample can have or that a database column cannot hold."""
    where = f"{origin}, sample {record['index']} of {record['task_id']}, field "
    for field, value in record.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise BadInputError(f"{where}{field}: is {value}, give a number or null", "file")
        low, high = BOUNDS.get(field, (0, MAX_COUNT))
        if isinstance(value, int | float) and not low <= value <= high:
            given = value if isinstance(value, float) else f"{value:.3g}" if abs(value) < 2**64 else "a huge number"
            unit = " s" if field in SECONDS else ""
            raise BadInputError(f"{where}{field}: is {given}{unit}, give {low} to {high}", "file")
        if isinstance(value, str) and len(value) > LONGEST.get(field, len(value)):
            raise BadInputError(f"{where}{field}: has {len(value)} characters, give at most {LONGEST[field]}", "file")
        if isinstance(value, str) and re.search("[\ud800-\udfff]", value):
            raise BadInputError(
                f"{where}{field}: holds half a character (a lone surrogate), write valid Unicode", "file"
            )
    reason = record["finish_reason"]
    if reason is not None and reason not in FINISH_REASONS:
        use = one_of(reason, FINISH_REASONS)
        raise BadInputError(f"{where}finish_reason: is {reason!r}: {use}", "file")
    if record["budget_s"] is not None and not MIN_BUDGET_S <= record["budget_s"] <= MAX_BUDGET_S:
        allowed = f"{MIN_BUDGET_S:g} to {MAX_BUDGET_S:g} seconds"
        raise BadInputError(f"{where}budget_s: is {record['budget_s']}, give {allowed}", "file")


def _sample(run: Run, record: exchange.Record) -> Sample:
    known = {name: record[name] for name in names(Sample, IMPORT) if record[name] is not None}
    return Sample(run_id=run.id, **{"seed": 0, "raw": "", "finish_reason": "stop"} | known)
