"""The race: one prompt, n samples against the clock. Each race is a run of its own, so its address keeps it."""

from __future__ import annotations

import uuid
from typing import Any

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from app.display import VERDICTS
from app.errors import BadInput, NotFound
from app.models import service as models
from app.runs import presentation as shown
from app.runs import repository
from app.runs.figures import in_budget_s
from app.runs.models import Run, RunTask
from app.states import OPEN_RUN_STATES, RunKind
from app.web import context, session

bp = Blueprint("complete", __name__)

FIELDS = ("prompt", "test", "entry_point", "target", "drafter", "n", "budget_s", "temperature", "max_tokens")
DEFAULTS = {
    "prompt": 'def is_palindrome(text: str) -> bool:\n    """Whether text reads the same backwards, letter case aside."""\n',
    "drafter": "sibling", "n": "8", "budget_s": "10", "temperature": "0.6", "max_tokens": "256",
}


@bp.get("/complete")
def index() -> str:
    """The form, empty but for an example."""
    known = models.list_models()
    return _page({**dict.fromkeys(FIELDS, ""), **DEFAULTS, "target": known[0].ref if known else ""})


@bp.get("/complete/<uuid:run_id>")
def show(run_id: uuid.UUID) -> str:
    """A race, running or over. Raises NotFound."""
    run = repository.get_run(session(), run_id)
    rows = repository.tasks_with_samples(session(), run_id)
    if run.kind is not RunKind.COMPLETE or not rows:
        raise NotFound(f"run {run_id} is no completion: open it under Runs")
    return _page(_values(run, rows[0]), run=run, row=rows[0])


def _page(values: dict[str, str], errors: dict[str, str] | None = None, run: Run | None = None,
          row: RunTask | None = None) -> str:
    signs = shown.in_finish_order(row.samples) if row else []
    return render_template(
        "complete/index.html", values=values, errors=errors or {}, models=models.list_models(), run=run, row=row,
        run_open=run is not None and run.state in OPEN_RUN_STATES, samples=signs, ranks=shown.ranks(signs),
        finished=sum(in_budget_s(s.row) is not None for s in signs),
        verdicts={key: (v.letter, v.family, v.name) for key, v in VERDICTS.items()})


def _values(run: Run, row: RunTask) -> dict[str, str]:
    return {"prompt": row.task.prompt, "test": row.task.test, "entry_point": row.task.entry_point,
            "target": run.target, "drafter": run.drafter, "n": str(run.n), "budget_s": f"{run.budget_s:g}",
            "temperature": f"{run.temperature:g}", "max_tokens": str(run.max_tokens)}


@bp.post("/complete")
def start() -> Any:
    """Starts a race and shows it."""
    return redirect(url_for("complete.index"))
