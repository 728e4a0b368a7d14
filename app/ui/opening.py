"""The budget (seconds) at which a page opens. A page of one run opens at the run's own budget.

At the longest budget curves are flat. A page that tests a difference opens where every run has done half of its work:
that does not depend on which run is better, so the tests at it stay valid. The first page tests nothing, and opens
where the runs differ most.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from evaluation.metrics import BUDGET_GRID, Curve


def where_half_is_answered(finish_times: Iterable[Sequence[float]], longest_s: float) -> float:
    """By then the slowest run has a finished sample for half of its tasks; `longest_s` where none finished.

    `finish_times` has the seconds to the first finished sample of each such task, run by run. A round number of
    seconds, at most `longest_s`.
    """
    medians = [sorted(times)[math.ceil(len(times) / 2) - 1] for times in finish_times if len(times)]
    slowest = max(medians, default=longest_s)
    return min(next((budget for budget in BUDGET_GRID if budget >= slowest), longest_s), longest_s)


def where_half_is_solved(curves: Iterable[Curve], budgets: Sequence[float]) -> float:
    """The first of `budgets` by which every run solves half of what it solves in the end; the last if none does."""
    halves = [
        next(budget for budget in budgets if curve.at(budget)[1] >= curve.pass_all[-1] / 2)
        for curve in curves
        if curve.pass_all[-1]
    ]
    return max(halves, default=budgets[-1])


def where_runs_differ_most(curves: Sequence[Curve]) -> float:
    """The budget at which Pass@First differs most between these curves, of several the smallest.

    It is never past the shortest curve: beyond its end a run has only a lower bound. Where the curves do not differ, it
    is the first budget at which the best one has half of its final value, or the last budget if nothing passes.
    `curves` are over the same tasks; there is at least one, and none is empty. Of BUDGET_GRID, so that it is a round
    number, or the end of the shortest curve.
    """
    end = min(curve.budgets[-1] for curve in curves)
    budgets = [*(budget for budget in BUDGET_GRID if budget < end), end]
    shares = [[curve.at(budget)[0] for curve in curves] for budget in budgets]
    spreads = [round(max(at) - min(at), 9) for at in shares]  # rounded, so that equal spreads are equal
    if max(spreads) > 0:
        return budgets[spreads.index(max(spreads))]
    best = [max(at) for at in shares]
    reached = [budget for budget, share in zip(budgets, best, strict=True) if share > 0 and share >= best[-1] / 2]
    return reached[0] if reached else end
