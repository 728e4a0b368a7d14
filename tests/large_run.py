"""A run of many samples, inserted in bulk: for tests and measurements of what pages cost over it."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from collections.abc import Iterator
from typing import Any

from sqlalchemy import insert

from app.core.context import Context
from app.core.db.types import generate_id
from app.core.states import RunState, TaskState
from app.datasets import service as datasets
from app.runs import figures
from app.runs.configuration import get_option_columns
from app.runs.models import Run, RunTask
from app.runs.repository import get_run
from app.runs.schemas import RunSpec
from app.samples.models import Sample

BATCH = 5000
ENDED = dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC)


def add_large_run(ctx: Context, n_tasks: int, n: int, *, dataset: str = "humaneval", name: str = "large") -> uuid.UUID:
    """Stores a finished run with `n` samples of each of the first `n_tasks` tasks, and its figures. Returns its id.

    A fifth of the samples passes; their texts have 300 to 1,500 characters, a tenth of them one text in common.
    """
    stored = datasets.require_dataset(ctx, dataset)
    spec = RunSpec(target="smollm2-135m", n=min(n, 128), budget_s=10.0, dataset=dataset)
    run = Run(
        id=generate_id(),
        **get_option_columns(spec) | {"n": n},
        name=name,
        state=RunState.FINISHED,
        dataset_id=stored.id,
        n_tasks=n_tasks,
        started_at=ENDED,
        finished_at=ENDED,
    )
    jobs = [
        {
            "id": generate_id(), "run_id": run.id, "task_pk": task.id, "position": position,
            "state": TaskState.FINISHED,
            "queued_at": ENDED, "started_at": ENDED, "finished_at": ENDED, "wall_s": 9.5, "queue_s": 0.1,
            "prefill_s": 0.2, "draft_s": 1.0, "verify_s": 8.0, "other_s": 0.3, "sandbox_s": 1.0,
        }
        for position, task in enumerate(stored.tasks[:n_tasks])
    ]  # fmt: skip
    with ctx.database.session() as session:
        session.add(run)
        session.flush()
        session.execute(insert(RunTask), jobs)
        batch: list[dict[str, Any]] = []
        for row in _samples(run.id, [job["id"] for job in jobs], n):
            batch.append(row)
            if len(batch) == BATCH:
                session.execute(insert(Sample), batch)
                batch = []
        if batch:
            session.execute(insert(Sample), batch)
    with ctx.database.session() as session:
        stored = get_run(session, run.id)
        figures.store_measurement(session, stored, figures.compute_measurement(session, stored))
    return run.id


def _samples(run_id: uuid.UUID, job_ids: list[Any], n: int) -> Iterator[dict[str, Any]]:
    draws = random.Random(7)
    for job_id in job_ids:
        for index in range(n):
            passed = draws.random() < 0.2
            own = "" if draws.random() < 0.1 else f"    # {draws.random()}\n"
            raw = f"    return {int(passed)}\n{own}" + "    # a comment that takes room\n" * draws.randint(10, 50)
            detail = None if passed else f"AssertionError: {draws.randint(0, 300)}"
            yield {
                "run_id": run_id, "run_task_id": job_id, "index": index, "seed": index, "raw": raw, "program": raw,
                "extraction": "completion", "finish_reason": "stop", "n_tokens": len(raw) // 4,
                "mean_logprob": -draws.random(), "first_token_s": 0.2, "finished_s": 1 + 8 * draws.random(),
                "n_rounds": 40, "n_drafted": 120, "n_accepted": 60, "ends": None, "eos_logprob": None,
                "verdict": "passed" if passed else "wrong_answer", "verdict_detail": detail,
                "failing_assert": None if passed else f"assert f({draws.randint(0, 300)}) == 1",
                "traceback": None if passed else "Traceback\n" * 20, "cpu_s": 0.1, "sandbox_wall_s": 0.1,
                "isolation": "bubblewrap", "trust": "proxy", "calls": 3,
            }  # fmt: skip
