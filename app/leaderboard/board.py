"""The leaderboard as a page shows it: which rows, in which groups and order, and the chart of the first group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from app.leaderboard.columns import COLUMNS
from app.leaderboard.entries import MEASURED_ELSEWHERE, LeaderboardEntry, label_entries
from app.leaderboard.service import LeaderboardRow
from app.web.ui.charts.chart import HALF, Chart, ChartCurve, draw_pass_curves

CURVES_SHOWN = 8  # readers cannot tell more lines apart
ROWS_SHOWN = 10  # of the first group, unless the reader asks for all rows
ROWS_OF_OTHERS = 3  # of every other group, so that the page has an end on a phone too

BY_NAME = "run"
SORTS = {key: column.label for column in COLUMNS for key in (column.key, f"-{column.key}")} | {
    BY_NAME: "name",
    f"-{BY_NAME}": "name",
}
"""What the leaderboard can be ordered by, in words; `-` reverses an order."""


@dataclass
class RunGroup:
    """Runs in one table: all ranked, or all unranked.

    If `compares`, all runs used the same tasks and device and were timed alike. Only such
    a group has an order by shares. The others hold runs that cannot be compared, newest first. `rows` holds the rows
    that are shown, of `total`.
    """

    rows: list[LeaderboardRow]
    compares: bool
    total: int = 0

    @property
    def run(self) -> LeaderboardEntry:
        """One of its runs; in a group that compares all have its dataset, device and number of tasks."""
        return self.rows[0].run

    @property
    def in_all(self) -> int:
        """The number of its runs; if they compare, also those filtered out."""
        return max(self.total, self.rows[0].n_in_group)

    @property
    def is_elsewhere(self) -> bool:
        """Whether another machine measured its runs."""
        return self.run.unranked_reason == MEASURED_ELSEWHERE

    @property
    def ranked(self) -> bool:
        """Whether its runs have ranks."""
        return self.run.unranked_reason is None


def arrange_groups(
    rows: Sequence[LeaderboardRow], budget: float, sort: str, *, all_rows: bool
) -> tuple[list[RunGroup], Chart | None]:
    """(the groups, the chart): measured here first, then whole datasets, then those that compare, over many tasks, of
    many runs.

    Unless `all_rows`, each group shows only its first rows in the order of `sort`.
    """
    groups = sorted(
        _group_rows(rows),
        key=lambda g: (g.is_elsewhere, not g.ranked, not g.compares, -g.run.n_tasks * g.compares, -len(g.rows)),
    )
    lead = _draw_lead_chart(groups[0], budget) if groups and groups[0].compares else None
    for place, group in enumerate(groups):
        group.total = len(group.rows)
        if group.compares:
            group.rows = _sort_rows(group.rows, sort)
        else:
            group.rows.sort(key=lambda row: row.run.created_at, reverse=True)
        if not all_rows:
            del group.rows[ROWS_OF_OTHERS if place else ROWS_SHOWN :]
    return groups, lead


def _group_rows(rows: Sequence[LeaderboardRow]) -> list[RunGroup]:
    """The rows by what compares; unranked runs that compare with none together, by dataset and device."""
    by_key: defaultdict[object, list[LeaderboardRow]] = defaultdict(list)
    for row in rows:
        by_key[row.group].append(row)
    found, alone = [], defaultdict(list)
    for members in by_key.values():
        run = members[0].run
        if run.unranked_reason is not None and len(members) == 1:
            alone[run.dataset_sha256, run.device].append(members[0])
        else:
            found.append(RunGroup(members, compares=True))
    only_one = not found and len(rows) == 1  # the chart of a user's first run, which nothing could be mixed with
    return [*found, *(RunGroup(members, compares=only_one) for members in alone.values())]


def _sort_rows(rows: list[LeaderboardRow], sort: str) -> list[LeaderboardRow]:
    """The rows in an order; rows without a value come last, and equal ones stay as they are."""
    key, is_reversed = sort.removeprefix("-"), sort.startswith("-")
    if key == BY_NAME:
        return sorted(rows, key=lambda row: row.run.name.lower(), reverse=is_reversed)
    column = next(column for column in COLUMNS if column.key == key)
    known = [row for row in rows if column.value(row) is not None]
    descending = column.descending != is_reversed
    ordered = sorted(known, key=lambda row: (column.value(row), column.tie(row)), reverse=descending)
    return ordered + [row for row in rows if column.value(row) is None]


def _draw_lead_chart(group: RunGroup, budget: float) -> Chart:
    """The curves of the best runs at their own budgets: the slider must not change which are drawn."""
    runs = sorted(
        (row.run for row in group.rows),
        key=lambda run: (run.curve.pass_first[-1], run.curve.pass_all[-1]),
        reverse=True,
    )[:CURVES_SHOWN]
    names, one = label_entries(runs), group.run
    curves = [
        ChartCurve(names[run.id], run.curve.budgets, run.curve.pass_first, series, key=str(run.id))
        for series, run in enumerate(runs)
    ]
    part = "" if group.ranked else f", {one.n_tasks} of {one.dataset_tasks} tasks,"
    title = f"Pass@First against the budget, {one.dataset}{part} on {one.device}"
    return draw_pass_curves(curves, title, one.n_tasks, budget=budget, width=HALF)
