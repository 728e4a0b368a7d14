"""The leaderboard as a page shows it: which rows, in which groups and order, with which columns and chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from app.leaderboard.columns import COLUMNS
from app.leaderboard.entries import Entry
from app.leaderboard.names import distinct
from app.leaderboard.service import Row
from app.ui.charts.curves import Curve, pass_curves, with_cursor
from app.ui.charts.parts import Chart
from app.ui.charts.scatter import Point, scatter

CURVES_SHOWN = 8  # readers cannot tell more lines apart
ROWS_SHOWN = 20  # of a group, unless the reader asks for all rows
ROWS_IN_ALL = 40  # in all groups together, so that the page has an end on a phone too
ROWS_AT_LEAST = 5  # of a group


SORTS = {column.key: column for column in COLUMNS if column.sort}
"""The columns the leaderboard can be ordered by."""
OPTIONAL = {column.key: column for column in COLUMNS if not column.required}
"""The columns a reader can select, by key."""
SHOWN_BY_DEFAULT = frozenset(key for key, column in OPTIONAL.items() if column.shown)


@dataclass
class Group:
    """Runs over the same dataset content on the same device, all ranked or all unranked.

    `rows` holds those that are shown, of `total`. `series` gives the run ids of the drawn curves their colours.
    """

    dataset: str
    device: str
    ranked: bool
    rows: list[Row]
    total: int = 0
    series: dict[Any, int] = field(default_factory=dict)
    chart: Chart | None = None


def selected(keys: Sequence[str]) -> frozenset[str]:
    """The keys of the optional columns to show: those named in the address, or the default where it names none."""
    return frozenset(keys) & OPTIONAL.keys() if keys else SHOWN_BY_DEFAULT


def groups(rows: Sequence[Row], budget: float, sort: str, view: str, *, whole: bool) -> list[Group]:
    """The rows by dataset, device and whether they are ranked; ranked groups first, then large ones.

    Unless `whole`, each group shows only its first rows in the order of `sort`, and later groups show fewer.
    """
    by_key: dict[tuple[bool, str, str], Group] = {}
    for row in rows:
        run, ranked = row.run, row.run.label is None
        by_key.setdefault((not ranked, *run.group), Group(run.dataset, run.device, ranked, [])).rows.append(row)
    ordered = [by_key[key] for key in sorted(by_key, key=lambda k: (k[0], -len(by_key[k].rows)))]
    left = ROWS_IN_ALL
    for group in ordered:
        best = sorted(group.rows, key=lambda row: _final_shares(row.run), reverse=True)[:CURVES_SHOWN]
        group.series = {row.run.id: i for i, row in enumerate(best)}
        group.total = len(group.rows)
        room = None if whole else max(min(ROWS_SHOWN, left), ROWS_AT_LEAST)
        group.rows = _sorted(group.rows, sort)[:room]
        left -= len(group.rows)
        group.chart = _chart(group, best, budget, view)
    return ordered


def _final_shares(run: Entry) -> tuple[float, float]:
    """Both shares at the run's own budget: the slider must change neither which runs are drawn nor their colours."""
    return run.curve.pass_first[-1], run.curve.pass_all[-1]


def _sorted(rows: list[Row], sort: str) -> list[Row]:
    column = SORTS[sort]
    value = column.sort
    assert value is not None
    known = [row for row in rows if value(row) is not None]
    return sorted(known, key=value, reverse=column.descending) + [row for row in rows if value(row) is None]


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
    """Cached: only the cursor on the chart depends on the budget."""
    return pass_curves(curves, title, label_room=176)
