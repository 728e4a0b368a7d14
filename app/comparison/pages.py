"""Two runs over the same dataset, side by side: what changed, by how much, and on which tasks."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from flask import Blueprint, render_template, request

from app.comparison import presentation as compared
from app.comparison.comparing import compare_runs, same_device
from app.errors import BadInputError
from app.http.web import session
from app.runs import configuration, repository
from app.runs.forms import parse_budget
from app.runs.models import Run
from app.ui.charts.axes import table_budgets
from evaluation.metrics import MetricError

bp = Blueprint("compare", __name__)


@bp.get("/compare")
def index() -> str:
    """The comparison of `?a=` (the reference) with `?b=`, at `?budget=` seconds (default: compared.usual_budget)."""
    runs = [r for r in repository.list_runs(session(), limit=200) if r.curve and r.curve.n_tasks]
    page: dict[str, Any] = {"runs": runs, "a": None, "b": None, "error": None, "shares": [], "budget": None}
    try:
        page["a"], page["b"] = _run("a", runs), _run("b", runs)
        chosen = [run for run in (page["a"], page["b"]) if run]
        page["runs"] = [*runs, *(run for run in dict.fromkeys(chosen) if run not in runs)]  # archived, or older ones
        page["budget"] = parse_budget(request.args.get("budget"))
        if page["a"] and page["b"]:
            page |= _comparison(page["a"], page["b"], page["budget"])
    except (BadInputError, MetricError) as problem:
        page["error"] = str(problem)
    return render_template("comparison/index.html", **page)


def _comparison(a: Run, b: Run, budget: float | None) -> dict[str, Any]:
    longest = min(a.budget_s, b.budget_s)
    found = compare_runs(session(), a, b, min(budget or compared.usual_budget(a, b), longest))
    shares = compared.shares(found, longest)
    covered = compared.span(a, b)
    of_a, of_b = (repository.tasks_without_texts(session(), run.id) for run in (a, b))
    return {
        "budget": found.budget_s,
        "shares": shares,
        "notes": compared.notes(a, b, found),
        "speed": found.speed,
        "comparable": same_device(a, b),
        "times": compared.times(a, b),
        "budgets": table_budgets(*covered),
        "changes": _changes(a, b),
        "tasks": compared.differing(found, of_a, of_b),
        "chart": compared.curves(a, b, found.budget_s, shares[0].crossing, covered),
        "gap": compared.gap(found, shares[0].crossing, covered),
    }


def _changes(a: Run, b: Run) -> list[tuple[str, object, object]]:
    pairs = zip(configuration.table(a), configuration.table(b), strict=True)
    changed: list[tuple[str, object, object]] = [(label, x, y) for (label, x), (_, y) in pairs if x != y]
    for key in sorted({*a.provenance, *b.provenance}):
        line = (key.replace("_", " ").capitalize(), a.provenance.get(key), b.provenance.get(key))
        if line[1] != line[2] and line not in changed:
            changed.append(line)
    return changed


def _run(name: str, runs: Sequence[Run]) -> Run | None:
    reference = request.args.get(name)
    if not reference:
        return None
    try:
        wanted = uuid.UUID(reference)
    except ValueError:
        raise BadInputError(f"{reference[:60]!r} is not a run's id: choose the run from the list", name) from None
    return next((run for run in runs if run.id == wanted), None) or repository.get_run(session(), wanted)
