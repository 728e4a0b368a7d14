"""The leaderboard as shown: which columns, in which order, in which groups, with which plot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from app.leaderboard.entries import Entry
from app.leaderboard.names import distinct
from app.leaderboard.service import Row
from app.ui.charts.curves import Curve, pass_curves, with_cursor
from app.ui.charts.parts import Chart
from app.ui.charts.scatter import Point, scatter

CURVES_SHOWN = 8  # more lines than this cannot be told apart
ROWS_SHOWN = 20  # of a group, unless all rows are asked for
ROWS_IN_ALL = 40  # in all groups together, so that the page ends on a phone too
ROWS_AT_LEAST = 5  # of a group


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
    "finish": Sort("First finished", lambda r: r.run.first_finished_p50_s, descending=False),
    "speed": Sort("ms/token", lambda r: r.run.ms_per_token, descending=False),
    "throughput": Sort("tokens/s", lambda r: r.run.tokens_per_s),
    "accepted": Sort("Accepted", lambda r: r.run.mean_acceptance_length),
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
    """Runs that may stand in one list: same dataset content and device; ranked, or not. Shown are `rows` of `total`."""

    dataset: str
    device: str
    ranked: bool
    rows: list[Row]
    total: int = 0
    series: dict[Any, int] = field(default_factory=dict)
    chart: Chart | None = None


def columns(asked: Sequence[str]) -> frozenset[str]:
    """The columns meant by the address: those named, or the usual ones where it names none at all."""
    return frozenset(asked) & frozenset(COLUMNS) if asked else SHOWN_AT_FIRST


def groups(rows: Sequence[Row], budget: float, sort: str, view: str, *, whole: bool) -> list[Group]:
    """The rows apart by dataset, device and whether they are ranked; ranked and large groups first.

    Unless `whole`, each shows its first rows in the order of `sort`, and later groups fewer.
    """
    found: dict[tuple[bool, str, str], Group] = {}
    for row in rows:
        run, ranked = row.run, row.run.label is None
        found.setdefault((not ranked, *run.group), Group(run.dataset, run.device, ranked, [])).rows.append(row)
    ordered = [found[key] for key in sorted(found, key=lambda k: (k[0], -len(found[k].rows)))]
    left = ROWS_IN_ALL
    for group in ordered:
        best = sorted(group.rows, key=lambda row: _in_the_end(row.run), reverse=True)[:CURVES_SHOWN]
        group.series = {row.run.id: i for i, row in enumerate(best)}
        group.total = len(group.rows)
        room = None if whole else max(min(ROWS_SHOWN, left), ROWS_AT_LEAST)
        group.rows = _sorted(group.rows, sort)[:room]
        left -= len(group.rows)
        group.chart = _chart(group, best, budget, view)
    return ordered


def _in_the_end(run: Entry) -> tuple[float, float]:
    """Both shares at the run's own budget: which runs are drawn, and how, must not change with the slider."""
    return run.curve.pass_first[-1], run.curve.pass_all[-1]


def _sorted(rows: list[Row], sort: str) -> list[Row]:
    how = SORTS[sort]
    known = [r for r in rows if how.key(r) is not None]
    return sorted(known, key=how.key, reverse=how.descending) + [r for r in rows if how.key(r) is None]


def _chart(group: Group, rows: list[Row], budget: float, view: str) -> Chart:
    where = f"{group.dataset} on {group.device}"
    names = distinct([r.run for r in rows])
    if view != "scatter":
        curves = (
            Curve(names[r.run.id], r.run.curve.budgets, r.run.curve.pass_first, i, key=str(r.run.id))
            for i, r in enumerate(rows)
        )
        return with_cursor(_curves(f"Pass@First against the budget, {where}", tuple(curves)), budget)
    items = [
        Point(names[r.run.id], r.run.first_finished_p50_s, r.pass_first, max(r.run.curve.pass_first), i, str(r.run.id))
        for i, r in enumerate(rows)
        if r.run.first_finished_p50_s
    ]
    x_title = "Median time to the first finished sample"
    return scatter(items, f"Pass@First against latency, {where}", x_title, budget)


@lru_cache(maxsize=64)
def _curves(title: str, curves: tuple[Curve, ...]) -> Chart:
    """Kept, because only the cursor on it depends on the budget."""
    return pass_curves(curves, title, label_room=176)
