"""Deleting a run for good: its rows, its live events, the answers stored of it, and what a completion was asked."""

from __future__ import annotations

import uuid

from sqlalchemy import delete as remove
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from app.context import Context
from app.datasets.models import Dataset
from app.errors import Conflict
from app.runs.models import Run
from app.runs.repository import get_run
from app.states import OPEN_RUN_STATES, DatasetKind, RunKind


def delete(ctx: Context, run_id: uuid.UUID) -> None:
    """Removes an ended run with its tasks, its samples and the baseline made for it; of a completion the prompt too.

    Answers kept for an Idempotency-Key go by a cascade. Raises NotFound, or Conflict while the run is open.
    """
    with ctx.database.session() as session:
        run = get_run(session, run_id)
        if run.state in OPEN_RUN_STATES:
            raise Conflict(f"the run is {run.state}: cancel it before you delete it")
        baseline = (run.figures or {}).get("plain_run")
        for found in (run, session.get(Run, uuid.UUID(baseline)) if baseline else None):
            if found is not None:
                session.delete(found)
    ctx.bus.forget(run_id)
    if run.kind is RunKind.COMPLETION:
        _forget_prompt(ctx, run.dataset_id)


def _forget_prompt(ctx: Context, dataset_id: uuid.UUID) -> None:
    """Removes what completions were asked, unless another one was asked the same."""
    used = select(Run.id).where(Run.dataset_id == Dataset.id).exists()
    try:
        with ctx.database.session() as session:
            session.execute(remove(Dataset).where(Dataset.id == dataset_id, Dataset.kind == DatasetKind.PROMPT, ~used))
    except IntegrityError:
        pass  # it is asked again at this moment
