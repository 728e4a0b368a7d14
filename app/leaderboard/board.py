"""The leaderboard as shown: which columns, in which order, in which groups, with which plot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.charts.curves import Curve, pass_curves
from app.charts.parts import Chart
from app.charts.scatter import Point, scatter
from app.leaderboard.service import Row

CURVES_SHOWN = 12  # more lines than this cannot be told apart


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
    "throughput": Sort("tokens/s", lambda r: (r.run.figures or {}).get("tokens_per_s")),
    "accepted": Sort("Accepted", lambda r: r.mean_acceptance_length),
    "date": Sort("Date", lambda r: r.run.created_at),
}

COLUMNS = {
    "all": "Pass@All",
    "loss": "Ranking loss",
    "finish": "First finished",
    "speed": "ms/token",
    "throughput": "tokens/s",
    "accepted": "Accepted length",
    "samples": "Samples",
    "tasks": "Tasks",
    "sampling": "Sampling",
    "date": "Date and fingerprint",
}
"""What can be left out, by its key; rank, run and Pass@First always stand."""
SHOWN_AT_FIRST = frozenset(COLUMNS) - {"throughput", "sampling"}


@dataclass
class Group:
    """Runs that may stand in one list: same dataset content, same device; ranked, or not."""

    dataset: str
    device: str
    ranked: bool
    rows: list[Row]
    series: dict[Any, int] = field(default_factory=dict)
    chart: Chart | None = None


def columns(asked: Sequence[str]) -> frozenset[str]:
    """The columns meant by the address: those named, or the usual ones where it names none at all."""
    return frozenset(asked) & frozenset(COLUMNS) if asked else SHOWN_AT_FIRST


def groups(rows: Sequence[Row], budget: float, sort: str, view: str) -> list[Group]:
    """The rows apart by dataset, device and whether they are ranked; ranked and large groups first."""
    found: dict[tuple[bool, str, str], Group] = {}
    for row in rows:
        ranked = row.label is None
        key = (not ranked, row.run.dataset.sha256, row.device)
        found.setdefault(key, Group(row.run.dataset.name, row.device, ranked, [])).rows.append(row)
    ordered = [found[key] for key in sorted(found, key=lambda k: (k[0], -len(found[k].rows)))]
    for group in ordered:
        best = sorted(group.rows, key=_in_the_end, reverse=True)[:CURVES_SHOWN]
        group.series = {row.run.id: i for i, row in enumerate(best)}
        group.rows = _sorted(group.rows, sort)
        group.chart = _chart(group, best, budget, view)
    return ordered


def _in_the_end(row: Row) -> tuple[float, float]:
    """Both shares at the run's own budget: which runs are drawn, and how, must not change with the slider."""
    curve = row.run.curve
    return (curve.pass_first[-1], curve.pass_all[-1]) if curve else (0.0, 0.0)


def _sorted(rows: list[Row], sort: str) -> list[Row]:
    how = SORTS[sort]
    known = [r for r in rows if how.key(r) is not None]
    return sorted(known, key=how.key, reverse=how.descending) + [r for r in rows if how.key(r) is None]


def _chart(group: Group, rows: list[Row], budget: float, view: str) -> Chart:
    where = f"{group.dataset} on {group.device}"
    curves = []
    items = []
    for row in rows:
        run, stored, series = row.run, row.run.curve, group.series[row.run.id]
        assert stored is not None  # the board lists runs with a curve only
        curves.append(Curve(run.name, stored.budgets, stored.pass_first, series))
        if row.first_finished_p50_s:
            best = max(stored.pass_first)
            items.append(Point(run.name, row.first_finished_p50_s, row.pass_first, best, series, str(run.id)))
    if view == "scatter":
        x_title = "Median time to the first finished sample"
        return scatter(items, f"Pass@First against latency, {where}", x_title, budget)
    return pass_curves(curves, f"Pass@First against the budget, {where}", budget=budget, label_room=176)
