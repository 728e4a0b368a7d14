"""A run's samples as text lines, in our own form and in those of other tools (evaluation/exchange.py)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from sqlalchemy.orm import Session

from app.datasets.service import as_plain
from app.runs.clock import lost_share
from app.runs.models import Run
from app.runs.render import sample_document
from app.runs.repository import tasks_with_samples
from evaluation import datasets as files
from evaluation import exchange

FORMATS = exchange.FORMATS


def lines(session: Session, run: Run, form: str) -> Iterator[str]:
    """The samples by task and index, one line each (csv: after a heading). `form` is one of FORMATS."""
    dataset = files.Dataset(run.dataset.name, tuple(as_plain(t) for t in run.dataset.tasks), run.dataset.sha256)
    records = [
        {
            **sample_document(t.task.task_id, s),
            "run_id": str(run.id),
            "prompt_sha256": _sha256(t.prompt_sent),
            "budget_s": run.budget_s,
            "queue_s": t.queue_s,
            "sandbox_s": s.sandbox_wall_s,
            "lost_to_others": lost_share(t),
        }
        for t in tasks_with_samples(session, run.id)
        for s in t.samples
    ]
    return exchange.lines(records, form, dataset)  # type: ignore[arg-type]


def _sha256(prompt: str | None) -> str | None:
    """Of the prompt as the model saw it; None where that is not known, as for samples made elsewhere."""
    return None if prompt is None else hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()
