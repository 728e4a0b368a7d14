"""The rows of the leaderboard at a budget, with their ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from app.core.errors import BadInputError
from app.leaderboard.entries import LeaderboardEntry
from evaluation.metrics import compute_wilson_interval

MIN_TASKS = 50  # with fewer, the interval of a share is wider than 25 points


@dataclass(slots=True)
class LeaderboardRow:
    """One run on the leaderboard at a budget.

    `place` is its place among the `n_in_group` runs that compare with it; runs with equal shares have the same one.
    `budget_s` is the budget the shares were read at: the requested one, or the run's own if that is smaller (`capped`:
    the run stopped there, so its shares are lower bounds). Intervals are Wilson's at 95 %.
    """

    run: LeaderboardEntry
    budget_s: float
    capped: bool
    pass_first: float
    pass_all: float
    place: int = 0
    n_in_group: int = 0

    @property
    def rank(self) -> int | None:
        """The place; None for a run with an `unranked_reason`."""
        return self.place if self.run.unranked_reason is None else None

    @property
    def group(self) -> object:
        """The key of comparable rows."""
        return self.run.unranked_reason is None, self.run.group

    @property
    def ranking_loss(self) -> float:
        """The share of tasks with a right answer that was not chosen."""
        return self.pass_all - self.pass_first

    @property
    def pass_first_interval(self) -> tuple[float, float]:
        """(low, high) of `pass_first`."""
        return compute_wilson_interval(round(self.pass_first * self.run.n_tasks), self.run.n_tasks)

    @property
    def pass_all_interval(self) -> tuple[float, float]:
        """(low, high) of `pass_all`."""
        return compute_wilson_interval(round(self.pass_all * self.run.n_tasks), self.run.n_tasks)


def rank_runs(
    runs: Iterable[LeaderboardEntry],
    budget_s: float | None = None,
    *,
    dataset: str | None = None,
    target: str | None = None,
    archived: bool = False,
) -> list[LeaderboardRow]:
    """The runs of a dataset and model at `budget_s` seconds (None: each at its own budget), best Pass@First first.

    Archived runs are left out unless `archived`. A run without an `unranked_reason` gets a rank among
    its group (`LeaderboardEntry.group`), including runs that dataset and target leave out; ties share a
    rank. The other runs follow, ordered by their shares, with a label. Raises BadInputError for a budget not above 0.
    """
    if budget_s is not None and not budget_s > 0:
        raise BadInputError(f"budget is {budget_s:g}: it must be above 0 seconds", "budget")
    rows = [_build_row(run, budget_s) for run in runs if archived or not run.archived]
    rows.sort(key=lambda row: (row.run.unranked_reason is not None, -row.pass_first, -row.pass_all))
    _assign_places(rows)
    return [
        row for row in rows if (not dataset or row.run.dataset == dataset) and (not target or row.run.target == target)
    ]


def _assign_places(rows: Iterable[LeaderboardRow]) -> None:
    """Gives the rows, which are in the order of their shares, their places in their groups."""
    groups: defaultdict[object, list[LeaderboardRow]] = defaultdict(list)
    for row in rows:
        groups[row.group].append(row)
    for group in groups.values():
        above = group[0]
        for place, row in enumerate(group, start=1):
            tied = (above.pass_first, above.pass_all) == (row.pass_first, row.pass_all)
            row.place, row.n_in_group = above.place if tied and place > 1 else place, len(group)
            above = row


def _build_row(run: LeaderboardEntry, budget_s: float | None) -> LeaderboardRow:
    budget = min(budget_s or run.budget_s, run.budget_s)
    return LeaderboardRow(run, budget, budget_s is not None and budget < budget_s, *run.curve.get_shares_at(budget))
