"""Samples that another tool made, as a run of ours: stored as decoded, then judged in our sandbox like any other."""

from __future__ import annotations

import uuid
from pathlib import Path

from app.context import Context
from app.datasets import service as datasets
from app.db import utcnow
from app.errors import BadInput
from app.ids import new_id
from app.runs import doorbell
from app.runs.models import Run, RunTask
from app.runs.schemas import MAX_BUDGET_S
from app.samples.models import Sample
from app.states import RunKind, TaskState
from evaluation import datasets as files
from evaluation import exchange

UNKNOWN = "unknown"


def submit(
    ctx: Context,
    file: Path,
    *,
    target: str,
    dataset_name: str,
    name: str = "",
    pinned_worker: str | None = None,
    ring: bool = True,
) -> uuid.UUID:
    """Stores the file's samples as a run and rings for it. Returns its id. Raises BadInput naming file and line.

    What the file does not say about decoding (times, seeds, settings) stays unknown; a sample without a finish time
    counts for pass@k and for no budget. `ring` as in service.submit.
    """
    dataset = datasets.require(ctx, dataset_name)
    content = files.Dataset(dataset.name, tuple(datasets.as_plain(t) for t in dataset.tasks), dataset.sha256)
    try:
        records = exchange.read(file.read_bytes(), file.name, content)
    except exchange.ExchangeError as error:
        raise BadInput(str(error), "file") from None
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror}", "file") from None
    by_task: dict[str, list[exchange.Record]] = {}
    for record in records:
        by_task.setdefault(record["task_id"], []).append(record)
    now = utcnow()
    run = Run(
        id=new_id(),
        name=name or f"{target} ({file.name})",
        kind=RunKind.IMPORTED,
        dataset_id=dataset.id,
        target=target,
        drafter=UNKNOWN,
        draft_length=UNKNOWN,
        acceptance=UNKNOWN,
        dtype=UNKNOWN,
        device=UNKNOWN,
        n=max(map(len, by_task.values())),
        budget_s=records[0].get("budget_s") or MAX_BUDGET_S,
        temperature=0.0,
        top_p=1.0,
        seed=0,
        max_tokens=0,
        prompt_mode=UNKNOWN,
        n_tasks=len(by_task),
        pinned_worker=pinned_worker,
        command=f"bassline runs import {file.name} --target {target}",
        rung_at=now if ring else None,
        started_at=now,
        provenance={"source": file.name},
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
    if ring:
        doorbell.ring_prepare(run.id)
    return run.id


def _sample(run: Run, record: exchange.Record) -> Sample:
    return Sample(
        run_id=run.id,
        index=record["index"],
        seed=record["seed"] or 0,
        raw=record["raw"] or "",
        program=record["program"],
        extraction=record["extraction"],
        extraction_version=record["extraction_version"],
        n_tokens=record["n_tokens"] or 0,
        mean_logprob=record["mean_logprob"],
        finish_reason=record["finish_reason"] or "stop",
        first_token_s=record["first_token_s"],
        finished_s=record["finished_s"],
        n_rounds=record["n_rounds"] or 0,
        n_drafted=record["n_drafted"] or 0,
        n_accepted=record["n_accepted"] or 0,
        token_ids=[],
        logprobs=[],
        origins="",
    )
