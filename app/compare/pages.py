"""Two runs over the same dataset, side by side: what changed, by how much, and on which tasks."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flask import Blueprint, render_template, request

from app.charts import Chart, Curve, pass_curves
from app.errors import BadInput
from app.runs import presentation as shown
from app.runs import repository
from app.runs.figures import in_budget_s
from app.runs.models import Run, RunTask
from app.runs.service import check_comparable
from app.states import PASSED, SANDBOX_ERROR, TaskState
from app.web import session
from evaluation.metrics import MetricError, SampleOutcome, Selector
from evaluation.statistics import Comparison, compare, crossover

bp = Blueprint("compare", __name__)


@dataclass(frozen=True)
class Both:
    """The comparison of one share; `b` against the reference `a`."""

    label: str
    result: Comparison
    crossover_s: float | None

    @property
    def sentence(self) -> str:
        """What the numbers allow one to say."""
        r = self.result
        if r.p < 0.05:
            return f"The difference is beyond chance (McNemar p = {r.p:.3f})."
        return (
            f"The difference is within chance (McNemar p = {r.p:.2f}): with {r.n_tasks} tasks, a true one would have "
            f"to be about {100 * r.detectable:.1f} points to be seen reliably."
        )


@bp.get("/compare")
def index() -> str:
    """The comparison of `?a=` (the reference) with `?b=`, at `?budget=` seconds (default: the smaller of both)."""
    runs = [r for r in repository.list_runs(session(), limit=200) if r.curve and r.curve.n_tasks]
    a, b = _run("a"), _run("b")
    page: dict[str, Any] = {"runs": runs, "a": a, "b": b, "error": None, "both": [], "budget": None}
    if a is None or b is None:
        return render_template("compare/index.html", **page)
    try:
        check_comparable(a, b)
        budget = min(_budget(request.args.get("budget")) or a.budget_s, a.budget_s, b.budget_s)
        of_a, of_b = _outcomes(a), _outcomes(b)
        both = [_compare("Pass@First", of_a, of_b, budget, a, b), _compare("Pass@All", of_a, of_b, budget, a, b)]
    except (BadInput, MetricError) as problem:
        return render_template("compare/index.html", **{**page, "error": str(problem)})
    page |= {"budget": budget, "both": both, "chart": _chart(a, b, budget), "changes": _changes(a, b)}
    return render_template("compare/index.html", **page)


def _compare(
    label: str, of_a: Sequence[SampleOutcome], of_b: Sequence[SampleOutcome], budget: float, a: Run, b: Run
) -> Both:
    selector: Selector | None = "mean_logprob" if label == "Pass@First" else None
    end = min(a.budget_s, b.budget_s)
    grid = [x for x in (a.curve.budgets if a.curve else []) if x < end] + [end]
    crossing = crossover(of_b, of_a, grid, selector).budget_s
    return Both(label, compare(of_b, of_a, budget, selector), crossing)


def _outcomes(run: Run) -> list[SampleOutcome]:
    tasks = repository.tasks_with_samples(session(), run.id)
    return [
        SampleOutcome(t.task.task_id, s.index, in_budget_s(s), s.mean_logprob, s.verdict == PASSED, s.n_tokens)
        for t in tasks
        if _judged(t)
        for s in t.samples
    ]


def _judged(task: RunTask) -> bool:
    return task.state == TaskState.FINISHED and all(s.verdict not in (None, SANDBOX_ERROR) for s in task.samples)


def _chart(a: Run, b: Run, budget: float) -> Chart:
    curves = []
    for series, (run, name) in enumerate(((a, "A"), (b, "B"))):
        if run.curve is not None:
            curves.append(Curve(f"{name} First", run.curve.budgets, run.curve.pass_first, series))
            curves.append(Curve(f"{name} All", run.curve.budgets, run.curve.pass_all, series, "all"))
    return pass_curves(curves, "Both runs against the budget", budget=budget)


def _changes(a: Run, b: Run) -> list[tuple[str, object, object]]:
    pairs = zip(shown.configuration(a), shown.configuration(b), strict=True)
    changed = [(label, x, y) for (label, x), (_, y) in pairs if x != y]
    for key in sorted({*a.provenance, *b.provenance}):
        x, y = a.provenance.get(key), b.provenance.get(key)
        if x != y:
            changed.append((key.replace("_", " ").capitalize(), x, y))
    return changed


def _run(name: str) -> Run | None:
    reference = request.args.get(name)
    if not reference:
        return None
    try:
        return repository.get_run(session(), uuid.UUID(reference))
    except ValueError:
        raise BadInput(f"{reference[:60]!r} is not a run's id: choose the run from the list", name) from None


def _budget(text: str | None) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        raise BadInput(f"budget is {text[:40]!r}: give a number of seconds, such as 5", "budget") from None
    if not value > 0:
        raise BadInput(f"budget is {value:g}: it must be above 0 seconds", "budget")
    return value
