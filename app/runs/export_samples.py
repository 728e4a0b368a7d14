"""A run's samples as text lines, in our own format and in other tools' formats (evaluation/exchange.py)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from app.core.db.database import Database
from app.datasets.service import to_evaluation_task
from app.runs.clock import compute_lost_share
from app.runs.documents import dump_sample
from app.runs.models import Run
from app.runs.repository import iterate_tasks
from app.samples.models import Sample
from app.samples.transport import EXPORT, list_column_types
from evaluation import datasets as dataset_files
from evaluation import exchange

FIELDS: exchange.Fields = (
    {"run_id": str, "task_id": str}
    | list_column_types(Sample, EXPORT)
    | dict.fromkeys(("prompt_sha256", "failure"), str)
    | dict.fromkeys(("queue_s", "budget_s", "lost_to_others"), float)
)
"""Fields of an exported sample. `first_token_s` and `finished_s` are seconds since the engine started the task,
`queue_s` is the wait before that, `lost_to_others` the share of the machine that others took while the task was
decoded."""


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
