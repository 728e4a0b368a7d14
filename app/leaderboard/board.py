"""The leaderboard as a page shows it: which rows, in which groups and order, with which columns and chart."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from app.leaderboard.columns import COLUMNS
from app.leaderboard.entries import Entry, labels_of
from app.leaderboard.service import Row
from app.runs.colours import series_of
from app.web.ui.charts.axes import HALF, WIDE
from app.web.ui.charts.curves import Curve, pass_curves, with_cursor
from app.web.ui.charts.parts import Chart
from app.web.ui.charts.scatter import Point, scatter
from evaluation.metrics import BUDGET_GRID

CURVES_SHOWN = 8  # readers cannot tell more lines apart
ROWS_SHOWN = 10  # of a group, unless the reader asks for all rows
ROWS_IN_ALL = 20  # in all groups together, so that the page has an end on a phone too
ROWS_AT_LEAST = 3  # of a group
CHARTS_SHOWN = 3  # of the first groups, unless the reader asks for all rows
GROUPS_SHOWN = 5  # or all over whole datasets, if they are more; unless the reader asks for all rows


BY_NAME = "run"
SORTS = {key: column.label for column in COLUMNS for key in (column.key, f"-{column.key}")} | {
    BY_NAME: "name",
    f"-{BY_NAME}": "name",
}
"""What the leaderboard can be ordered by, in words; `-` reverses an order."""
OPTIONAL = {column.key: column for column in COLUMNS if not column.required}
"""The columns a reader can select, by key."""
SHOWN_BY_DEFAULT = frozenset(key for key, column in OPTIONAL.items() if column.shown)


@dataclass
class Group:
    """Runs in one table: all ranked, or all unranked.

    In a group that `compares` all runs are over the same tasks on the same device, with times measured alike. Only such
    a group has a chart and an order by shares. The others hold runs that compare with none, newest first. `rows` holds
    the rows that are shown, of `total`. `series` gives the run ids of the drawn curves their colours. `places` has the
    rank of each run in a group that compares; runs with equal shares share a rank.
    """

    rows: list[Row]
    compares: bool
    total: int = 0
    series: dict[Any, int] = field(default_factory=dict)
    places: dict[Any, int] = field(default_factory=dict)
    chart: Chart | None = None

    @property
    def run(self) -> Entry:
        """One of its runs; in a group that compares all have its dataset, device and number of tasks."""
        return self.rows[0].run

    @property
    def in_all(self) -> int:
        """How many runs its ranks count, or its table would have: `total` and those that a filter left out."""
        return max(self.total, self.rows[0].n_ranked)

    @property
    def ranked(self) -> bool:
        """Whether its runs finished over a whole dataset."""
        return self.run.label is None


def selected(keys: Sequence[str]) -> frozenset[str]:
    """The keys of the optional columns to show: those named in the address, or the default where it names none."""
    return frozenset(keys) & OPTIONAL.keys() if keys else SHOWN_BY_DEFAULT


def groups(
    rows: Sequence[Row], budget: float, sort: str, view: str, *, whole: bool, answered: Container[uuid.UUID] = ()
) -> tuple[list[Group], int]:
    """(the groups to show, how many others there are): first the runs that `answered`, which the answer on the page is
    from, then groups over whole datasets, then large ones.

    Unless `whole`, each group shows only its first rows in the order of `sort`, later groups show fewer and no chart,
    and the last are left out.
    """
    found = sorted(
        _grouped(rows),
        key=lambda g: (all(row.run.id not in answered for row in g.rows), not g.ranked, not g.compares, -len(g.rows)),
    )
    shown = [group for place, group in enumerate(found) if whole or group.ranked or place < GROUPS_SHOWN]
    left = ROWS_IN_ALL
    for place, group in enumerate(shown):
        group.total = len(group.rows)
        room = None if whole else max(min(ROWS_SHOWN, left), ROWS_AT_LEAST)
        if group.compares:
            shares = [(row.pass_first, row.pass_all) for row in group.rows]
            group.places = {
                row.run.id: row.rank or 1 + sum(other > own for other in shares)
                for row, own in zip(group.rows, shares, strict=True)
            }
            if whole or place < CHARTS_SHOWN:
                best = sorted(group.rows, key=lambda row: _final_shares(row.run), reverse=True)[:CURVES_SHOWN]
                series = series_of([row.run.number for row in best])
                group.series = {row.run.id: one for row, one in zip(best, series, strict=True)}
                group.chart = _chart(group, best, budget, view, WIDE if place else HALF)
            group.rows = _sorted(group.rows, sort)[:room]
        else:
            group.rows = sorted(group.rows, key=lambda row: row.run.created_at, reverse=True)[:room]
        left -= len(group.rows)
    return shown, len(found) - len(shown)


def _grouped(rows: Sequence[Row]) -> list[Group]:
    """The rows by what compares; unranked runs that compare with none together, by dataset and device."""
    by_key: defaultdict[object, list[Row]] = defaultdict(list)
    for row in rows:
        by_key[row.run.label is None, row.run.group].append(row)
    found, alone = [], defaultdict(list)
    for members in by_key.values():
        run = members[0].run
        if run.label is not None and len(members) == 1:
            alone[run.dataset_sha256, run.device].append(members[0])
        else:
            found.append(Group(members, compares=True))
    only_one = not found and len(rows) == 1  # the chart of a user's first run, which nothing could be mixed with
    return [*found, *(Group(members, compares=only_one) for members in alone.values())]


def _final_shares(run: Entry) -> tuple[float, float]:
    """Both shares at the run's own budget: the slider must change neither which runs are drawn nor their colours."""
    return run.curve.pass_first[-1], run.curve.pass_all[-1]


def _sorted(rows: list[Row], sort: str) -> list[Row]:
    """The rows in an order; rows without a value come last, and equal ones stay as they are."""
    key, is_reversed = sort.removeprefix("-"), sort.startswith("-")
    if key == BY_NAME:
        return sorted(rows, key=lambda row: row.run.name.lower(), reverse=is_reversed)
    column = next(column for column in COLUMNS if column.key == key)
    known = [row for row in rows if column.value(row) is not None]
    descending = column.descending != is_reversed
    ordered = sorted(known, key=lambda row: (column.value(row), column.tie(row)), reverse=descending)
    return ordered + [row for row in rows if column.value(row) is None]


def _chart(group: Group, rows: list[Row], budget: float, view: str, width: float) -> Chart:
    run = group.run
    part = "" if group.ranked else f", {run.n_tasks} of {run.dataset_tasks} tasks,"
    where = f"{run.dataset}{part} on {run.device}"
    names = labels_of([r.run for r in rows])
    if view != "scatter":
        curves = (
            Curve(
                names[r.run.id],
                r.run.curve.budgets,
                r.run.curve.pass_first,
                group.series[r.run.id],
                key=str(r.run.id),
            )
            for r in rows
        )
        drawn = _curves(f"Pass@First against the budget, {where}", tuple(curves), run.n_tasks, width)
        return with_cursor(drawn, budget)
    items = [
        Point(
            names[r.run.id],
            r.run.figures.first_finished_p50_s,
            r.pass_first,
            max(r.run.curve.pass_first),
            group.series[r.run.id],
            str(r.run.id),
        )
        for r in rows
        if r.run.figures.first_finished_p50_s
    ]
    x_title = "Median time to the first finished sample"
    return scatter(items, f"Pass@First against latency, {where}", x_title, run.n_tasks, budget=budget, width=width)


@lru_cache(maxsize=64)
def _curves(title: str, curves: tuple[Curve, ...], n_tasks: int, width: float) -> Chart:
    """Cached: only the cursor on the chart depends on the budget."""
    return pass_curves(curves, title, n_tasks, budget=BUDGET_GRID[0], label_room=176, width=width)
