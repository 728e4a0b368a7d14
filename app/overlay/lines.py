"""Pass@First and Pass@All of every line of an overlay at one budget, and their paired differences to the baseline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from app.overlay.grouping import Group
from app.overlay.loading import Overlaid
from evaluation.inference import mcnemar, paired_interval
from evaluation.metrics import BUDGET_GRID, bootstrap_band, wilson
from evaluation.studies.leaders import holm

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

_mcnemar = lru_cache(maxsize=4096)(mcnemar)  # a millisecond each


@dataclass(frozen=True, slots=True)
class Difference:
    """A line minus the baseline as a share of the common tasks, with its 95 % interval.

    Between two runs, `wins` and `losses` count the tasks that only one of them solves, `p` is McNemar's exact p-value,
    and `beyond_chance` is Holm's decision at 5 % over all lines of the overlay. They are None between means over runs,
    whose interval is a paired bootstrap over tasks.
    """

    delta: float
    low: float
    high: float
    wins: int | None = None
    losses: int | None = None
    p: float | None = None
    beyond_chance: bool | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """A share of the common tasks with its 95 % interval; of several runs their mean, and the lowest and highest."""

    value: float
    low: float
    high: float
    spread: tuple[float, float] | None
    difference: Difference | None


@dataclass(frozen=True, slots=True)
class Line:
    """A run, or a group of runs, at a budget. The first line of an overlay is the baseline and has no differences."""

    group: Group
    first: Share
    every: Share


def lines_at(found: Overlaid, groups: Sequence[Group], budget_s: float) -> list[Line]:
    """Each group at `budget_s` seconds."""
    solved = found.measured.at(budget_s)
    if all(len(group.members) == 1 for group in groups):
        places = [group.members[0] for group in groups]
        first, every = (_of_runs(of[places]) for of in solved)
    else:
        first, every = _of_means(solved, groups)
    return [Line(*parts) for parts in zip(groups, first, every, strict=True)]


def usual_budget(found: Overlaid) -> float:
    """The budget at which a page opens: by then the slowest run has a finished sample for half of its tasks.

    It does not depend on which run is better, so that the tests at it stay valid; at the longest budget curves are
    flat. A round number of seconds, at most the shortest budget of the runs.
    """
    medians = []
    for times in found.measured.first_finished():
        known = np.sort(times[~np.isnan(times)])
        if len(known):
            medians.append(float(known[math.ceil(len(known) / 2) - 1]))
    slowest = max(medians, default=found.longest_s)
    return min(next((x for x in BUDGET_GRID if x >= slowest), found.longest_s), found.longest_s)


def _of_runs(solved: Bools) -> list[Share]:
    n = solved.shape[1]
    wins = (solved & ~solved[0]).sum(axis=1).tolist()
    losses = (solved[0] & ~solved).sum(axis=1).tolist()
    p_values = [_mcnemar(*pair) for pair in zip(wins, losses, strict=True)]
    told = [False, *holm(p_values[1:])]
    shares = []
    for row, passed in enumerate(solved.sum(axis=1).tolist()):
        difference = None
        if row:
            interval = paired_interval(n, wins[row], losses[row])
            delta = (wins[row] - losses[row]) / n
            difference = Difference(delta, *interval, wins[row], losses[row], p_values[row], told[row])
        shares.append(Share(passed / n, *wilson(passed, n), None, difference))
    return shares


def _of_means(solved: Sequence[Bools], groups: Sequence[Group]) -> list[list[Share]]:
    """The means of the groups for each of `solved`, in one bootstrap for all: drawing the tasks is what takes time."""
    means = [np.array([of[list(group.members)].mean(axis=0) for group in groups]) for of in solved]
    differences = [of[1:] - of[0] for of in means]
    low, high = bootstrap_band(
        np.concatenate([rows for pair in zip(means, differences, strict=True) for rows in pair]).T
    )
    made = []
    for number, (of, mean, difference) in enumerate(zip(solved, means, differences, strict=True)):
        start = number * (2 * len(groups) - 1)
        shares = []
        for row, group in enumerate(groups):
            of_runs = of[list(group.members)].mean(axis=1)
            spread = (float(of_runs.min()), float(of_runs.max())) if len(of_runs) > 1 else None
            at = start + row
            against = _against(difference[row - 1], low, high, start + len(groups) + row - 1) if row else None
            shares.append(Share(float(mean[row].mean()), float(low[at]), float(high[at]), spread, against))
        made.append(shares)
    return made


def _against(difference: Floats, low: Floats, high: Floats, at: int) -> Difference:
    """A difference per task, whose bounds are at the place `at`; where no task differs the bootstrap has no width."""
    bounds = (float(low[at]), float(high[at])) if difference.any() else paired_interval(len(difference), 0, 0)
    return Difference(float(difference.mean()), *bounds)
