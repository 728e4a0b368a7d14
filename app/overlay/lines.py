"""Pass@First and Pass@All of each line of an overlay at one budget, and the paired differences to the baseline run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from app.http.schemas import ResponseModel
from app.overlay.grouping import Group
from app.overlay.loading import Overlaid
from app.overlay.verdicts import Terms, decide_pair
from app.runs.figures import SELECTOR
from evaluation.decisions import PairDecision, Verdict
from evaluation.inference import compare_solved, paired_interval
from evaluation.metrics import Selector, bootstrap_band, wilson

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


class LineDifference(ResponseModel):
    """A line minus the baseline over the common tasks, with its 95 % interval, for all budgets and lines together.

    `wins`, `losses`, `p`, `beyond_chance` and `verdict` are null between means over several runs, whose
    interval is a paired bootstrap over tasks.
    """

    delta: float
    low: float
    high: float
    wins: int | None = Field(description="tasks that only this run solves")
    losses: int | None = Field(description="tasks that only the baseline solves")
    p: float | None = Field(description="exact two-sided p-value of McNemar's test, at this budget alone")
    beyond_chance: bool | None = Field(description="the verdict is better: the interval excludes 0")
    verdict: Verdict | None = Field(
        description="by the interval alone, without the caution of GET /compare; null between means"
    )


class LineShare(ResponseModel):
    """Pass@First or Pass@All of a line at the budget, with its 95 % interval; of several runs their mean."""

    share: float
    low: float
    high: float
    spread: tuple[float, float] | None = Field(description="lowest and highest of the line's runs; null for one run")
    difference: LineDifference | None = Field(description="to the baseline; null for the baseline itself")


@dataclass(frozen=True, slots=True)
class Line:
    """A run, or a group of runs, at a budget. The first line of an overlay is the baseline and has no differences."""

    group: Group
    pass_first: LineShare
    pass_all: LineShare


def lines_at(found: Overlaid, groups: Sequence[Group], budget_s: float, n_arms: int) -> list[Line]:
    """Each group at `budget_s` seconds, out of `n_arms` configurations among which the reader chooses."""
    solved = found.measured.at(budget_s)
    if all(len(group.members) == 1 for group in groups):
        places = [group.members[0] for group in groups]
        bands = [decide_pair(found, Terms(n_arms=n_arms), (place, places[0])) for place in places[1:]]
        first, every = (
            _of_runs(found.task_ids, of[places], [band[figure].decide(budget_s) for band in bands], selector)
            for figure, (of, selector) in enumerate(zip(solved, (SELECTOR, None), strict=True))
        )
    else:
        first, every = _of_means(solved, groups)
    return [Line(*parts) for parts in zip(groups, first, every, strict=True)]


def _of_runs(
    task_ids: Sequence[str], solved: Bools, decisions: Sequence[PairDecision], selector: Selector | None
) -> list[LineShare]:
    differences = []
    for of_run, decision in zip(solved[1:], decisions, strict=True):
        one = compare_solved(task_ids, of_run, solved[0], decision.budget_s, selector)
        differences.append(
            LineDifference(
                delta=one.delta,
                low=decision.low,
                high=decision.high,
                wins=len(one.wins),
                losses=len(one.losses),
                p=one.p,
                beyond_chance=decision.verdict == "better",
                verdict=decision.verdict,
            )
        )
    shares = []
    for passed, difference in zip(solved.sum(axis=1).tolist(), [None, *differences], strict=True):
        low, high = wilson(passed, len(task_ids))
        share = passed / len(task_ids)
        shares.append(LineShare(share=share, low=low, high=high, spread=None, difference=difference))
    return shares


def _of_means(solved: Sequence[Bools], groups: Sequence[Group]) -> list[list[LineShare]]:
    """The means of the groups for each of `solved`, in one bootstrap for all: drawing the tasks is what takes time."""
    means = [np.array([of[list(group.members)].mean(axis=0) for group in groups]) for of in solved]
    drawn = [(mean, mean[1:] - mean[0]) for mean in means]
    low, high = bootstrap_band(np.concatenate([rows for both in drawn for rows in both]).T)
    bounds = iter(zip(low.tolist(), high.tolist(), strict=True))
    made = []
    for of, (mean, difference) in zip(solved, drawn, strict=True):
        of_mean = [next(bounds) for _ in mean]
        differences = [_difference(row, next(bounds)) for row in difference]
        shares = []
        for group, row, (lowest, highest), one in zip(groups, mean, of_mean, [None, *differences], strict=True):
            of_runs = of[list(group.members)].mean(axis=1).tolist()
            spread = (min(of_runs), max(of_runs)) if len(of_runs) > 1 else None
            shares.append(LineShare(share=float(row.mean()), low=lowest, high=highest, spread=spread, difference=one))
        made.append(shares)
    return made


def _difference(of_tasks: Floats, drawn: tuple[float, float]) -> LineDifference:
    """A difference per task with its bounds; where no task differs the bootstrap has no width."""
    low, high = drawn if of_tasks.any() else paired_interval(len(of_tasks), 0, 0)
    delta = float(of_tasks.mean())
    return LineDifference(
        delta=delta, low=low, high=high, wins=None, losses=None, p=None, beyond_chance=None, verdict=None
    )
