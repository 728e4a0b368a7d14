"""Which arm leads at a budget, and which others are not significantly different."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from evaluation.inference import mcnemar
from evaluation.metrics import wilson
from evaluation.studies.arms import Bools, Scored

Metric = Literal["first", "all"]
"""Pass@First or Pass@All."""

ALPHA = 0.05
"""Level of the paired tests between one arm and all others at one budget."""


def values(scored: Scored, metric: Metric) -> Bools:
    """The solved tasks that this metric counts, bool `[A, T, K]`."""
    return scored.first if metric == "first" else scored.all


def interval(scored: Scored, metric: Metric, arm: int, column: int) -> tuple[float, float]:
    """Wilson's interval of an arm's share of the common tasks at the budget in this column."""
    return wilson(int(values(scored, metric)[arm, :, column].sum()), len(scored.task_ids))


def leader(scored: Scored, metric: Metric, column: int, among: Iterable[int] | None = None) -> int | None:
    """The arm that solves the most tasks at the budget in this column, None while none solves any.

    Of several, the one that is ahead in the other metric leads, then the cheapest, then the first in the list.
    """
    own = values(scored, metric)[:, :, column].sum(axis=1)
    other = values(scored, "all" if metric == "first" else "first")[:, :, column].sum(axis=1)
    best = min(
        range(len(scored.arms)) if among is None else among,
        key=lambda arm: (-own[arm], -other[arm], scored.arms[arm].cost_s, arm),
    )
    return best if own[best] else None


def equally_good(scored: Scored, metric: Metric, column: int, arm: int) -> tuple[int, ...]:
    """The arms not significantly different from `arm` at the budget in this column, cheapest first.

    Paired exact tests against every other arm, with Holm's correction (Scandinavian Journal of Statistics 6, 1979).
    """
    others = [other for other in range(len(scored.arms)) if other != arm]
    p_values = [p_value(scored, metric, column, arm, other) for other in others]
    equal = [other for other, differs in zip(others, holm(p_values), strict=True) if not differs]
    return tuple(sorted(equal, key=lambda other: (scored.arms[other].cost_s, other)))


def p_value(scored: Scored, metric: Metric, column: int, a: int, b: int) -> float:
    """McNemar's exact two-sided p-value of two arms at the budget in this column."""
    return mcnemar(*wins_and_losses(scored, metric, column, a, b))


def wins_and_losses(scored: Scored, metric: Metric, column: int, a: int, b: int) -> tuple[int, int]:
    """How many tasks arm `a` alone solves, and how many arm `b` alone does."""
    of_a, of_b = values(scored, metric)[a, :, column], values(scored, metric)[b, :, column]
    return int(np.sum(of_a & ~of_b)), int(np.sum(of_b & ~of_a))


def holm(p_values: Sequence[float], alpha: float = ALPHA) -> list[bool]:
    """Which hypotheses Holm's procedure rejects: the i-th smallest of m p-values against alpha / (m - i), i from 0, up
    to the first that is larger.

    A study calls this some hundred times. statsmodels' `multipletests` collects all garbage in each call: 140 ms.
    """
    rejected = [False] * len(p_values)
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if p_values[place] > alpha / (len(p_values) - rank):
            break
        rejected[place] = True
    return rejected
