"""The leaderboard page: every ended run at a chosen budget."""

from __future__ import annotations

import csv as csv_module
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flask import Blueprint, Response, render_template, request

from app.charts import Chart, Curve, Point, pass_curves, scatter
from app.errors import BadInput
from app.leaderboard import service
from app.leaderboard.service import Row
from app.web import session

bp = Blueprint("leaderboard", __name__)

CURVES_SHOWN = 12  # more lines than this cannot be told apart
MIN_TASKS = 50  # with fewer, the interval of a share spans over 25 points


@dataclass(frozen=True)
class Sort:
    """A column the board can be ordered by; `key` is None-safe, `descending` its natural direction."""

    label: str
    key: Callable[[Row], Any]
    descending: bool = True


SORTS = {
    "first": Sort("Pass@First", lambda r: (r.pass_first, r.pass_all)),
    "all": Sort("Pass@All", lambda r: (r.pass_all, r.pass_first)),
    "loss": Sort("Ranking loss", lambda r: r.ranking_loss, descending=False),
    "finish": Sort("First finished", lambda r: r.first_finished_p50_s, descending=False),
    "speed": Sort("ms/token", lambda r: r.ms_per_token, descending=False),
    "accepted": Sort("Accepted", lambda r: r.mean_acceptance_length),
    "date": Sort("Date", lambda r: r.run.created_at),
}


@dataclass
class Group:
    """Runs that may stand in one list: same dataset content, same device; ranked, or not."""

    dataset: str
    device: str
    ranked: bool
    rows: list[Row]
    series: dict[Any, int] = field(default_factory=dict)
    chart: Chart | None = None


@bp.get("/")
def index() -> str:
    """All groups at `?budget=` seconds (default: the largest budget of any run), in the order of `?sort=`."""
    error = None
    try:
        budget = _budget(request.args.get("budget"))
    except BadInput as problem:
        error, budget = str(problem), None
    dataset, target = request.args.get("dataset", ""), request.args.get("target", "")
    everything = service.rows(session())
    names = sorted({r.run.dataset.name for r in everything})
    targets = sorted({r.run.target for r in everything})
    ceiling = max((r.run.budget_s for r in everything), default=10.0)
    budget = budget or ceiling
    sort = request.args.get("sort", "first")
    sort = sort if sort in SORTS else "first"
    view = "scatter" if request.args.get("view") == "scatter" else "curves"
    rows = service.rows(session(), budget, dataset=dataset or None, target=target or None)
    groups = _groups(rows, budget, sort, view)
    grid = sorted({b for r in rows for b in (r.run.curve.budgets if r.run.curve else ()) if b <= ceiling})
    return render_template(
        "leaderboard/index.html",
        groups=groups,
        budget=budget,
        grid=grid,
        ceiling=ceiling,
        sort=sort,
        sorts=SORTS,
        view=view,
        dataset=dataset,
        target=target,
        datasets=names,
        targets=targets,
        error=error,
        min_tasks=MIN_TASKS,
        counts=_counts,
        nothing_at_all=not everything,
    )


@bp.get("/leaderboard.csv")
def csv() -> Response:
    """The rows at `?budget=` as comma-separated values, unranked ones with their label."""
    budget = _budget(request.args.get("budget"))
    rows = service.rows(
        session(), budget, dataset=request.args.get("dataset") or None, target=request.args.get("target") or None
    )
    out = io.StringIO()
    writer = csv_module.writer(out)
    writer.writerow(
        [
            "run",
            "id",
            "label",
            "dataset",
            "tasks",
            "dataset_tasks",
            "device",
            "target",
            "drafter",
            "draft_length",
            "n",
            "budget_s",
            "pass_first",
            "pass_first_low",
            "pass_first_high",
            "pass_all",
            "pass_all_low",
            "pass_all_high",
            "ranking_loss",
            "first_finished_p50_s",
            "first_finished_p95_s",
            "ms_per_token",
            "mean_acceptance_length",
            "fingerprint",
        ]
    )
    for r in rows:
        writer.writerow(
            [
                _cell(r.run.name),
                r.run.id,
                r.label or "",
                _cell(r.run.dataset.name),
                r.n_tasks,
                r.dataset_tasks,
                _cell(r.device),
                _cell(r.run.target),
                _cell(r.run.drafter),
                r.run.draft_length,
                r.run.n,
                r.budget_s,
                r.pass_first,
                *r.pass_first_interval,
                r.pass_all,
                *r.pass_all_interval,
                r.ranking_loss,
                r.first_finished_p50_s,
                r.first_finished_p95_s,
                r.ms_per_token,
                r.mean_acceptance_length,
                r.fingerprint,
            ]
        )
    return Response(
        out.getvalue(),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": "attachment; filename=leaderboard.csv"},
    )


def _cell(text: str) -> str:
    """Text that a spreadsheet does not take for a formula."""
    return "'" + text if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _budget(text: str | None) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        raise BadInput(f"budget is {text[:40]!r}: give a number of seconds, such as 5", "budget") from None
    if not 0 < value < 1e6:
        raise BadInput(f"budget is {value:g}: give a number of seconds above 0", "budget")
    return value


def _groups(rows: list[Row], budget: float, sort: str, view: str) -> list[Group]:
    groups: dict[tuple[bool, str, str], Group] = {}
    for row in rows:
        ranked = row.label is None
        key = (not ranked, row.run.dataset.sha256, row.device)
        groups.setdefault(key, Group(row.run.dataset.name, row.device, ranked, [])).rows.append(row)
    ordered = [groups[key] for key in sorted(groups, key=lambda k: (k[0], -len(groups[k].rows)))]
    for group in ordered:
        best = sorted(group.rows, key=SORTS["first"].key, reverse=True)
        group.series = {row.run.id: i for i, row in enumerate(best[:CURVES_SHOWN])}
        group.rows = _sorted(group.rows, sort)
        group.chart = _chart(group, best[:CURVES_SHOWN], budget, view)
    return ordered


def _sorted(rows: list[Row], sort: str) -> list[Row]:
    how = SORTS[sort]
    known = [r for r in rows if how.key(r) is not None]
    return sorted(known, key=how.key, reverse=how.descending) + [r for r in rows if how.key(r) is None]


def _chart(group: Group, rows: list[Row], budget: float, view: str) -> Chart:
    where = f"{group.dataset} on {group.device}"
    if view == "scatter":
        points = [
            Point(r.run.name, r.first_finished_p50_s, r.pass_first, group.series[r.run.id])
            for r in rows
            if r.first_finished_p50_s
        ]
        return scatter(points, f"Pass@First against latency, {where}", "Median time to the first finished sample")
    curves = []
    for row in rows:
        curve = row.run.curve
        assert curve is not None  # the board lists runs with a curve only
        curves.append(Curve(row.run.name, curve.budgets, curve.pass_first, group.series[row.run.id]))
    return pass_curves(curves, f"Pass@First against the budget, {where}", budget=budget, label_room=176)


def _counts(shares: list[float], n_tasks: int) -> str:
    """Shares as whole tasks, for the slider: shorter than the floats and exact."""
    return " ".join(str(round(share * n_tasks)) for share in shares)
