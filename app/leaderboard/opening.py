"""The budget at which the first page opens."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.metrics import BUDGET_GRID, Curve


def opening_budget(curves: Sequence[Curve]) -> float:
    """The budget in seconds at which Pass@First differs most between these curves, of several the smallest.

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
