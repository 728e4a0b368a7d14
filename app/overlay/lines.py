"""Pass@First and Pass@All of each line of an overlay at one budget, and the paired differences to the baseline run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.overlay.grouping import Group
from app.overlay.loading import Overlaid
from app.runs.figures import SELECTOR
from evaluation.inference import compare_solved, paired_interval
from evaluation.metrics import Selector, bootstrap_band, wilson
from evaluation.studies.leaders import holm

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


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
        first, every = (
            _of_runs(found.task_ids, of[places], budget_s, selector)
            for of, selector in zip(solved, (SELECTOR, None), strict=True)
        )
    else:
        first, every = _of_means(solved, groups)
    return [Line(*parts) for parts in zip(groups, first, every, strict=True)]


def _of_runs(task_ids: Sequence[str], solved: Bools, budget_s: float, selector: Selector | None) -> list[Share]:
    compared = [compare_solved(task_ids, of_run, solved[0], budget_s, selector) for of_run in solved[1:]]
    told = holm([one.p for one in compared])
    differences = [
        Difference(one.delta, one.low, one.high, len(one.wins), len(one.losses), one.p, beyond_chance)
        for one, beyond_chance in zip(compared, told, strict=True)
    ]
    n = len(task_ids)
    return [
        Share(passed / n, *wilson(passed, n), None, difference)
        for passed, difference in zip(solved.sum(axis=1).tolist(), [None, *differences], strict=True)
    ]


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
