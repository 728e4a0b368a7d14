"""Which arm leads at a budget, and what is decided about each pair of arms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

from evaluation.decisions import MARGIN, PairBand, PairDecision
from evaluation.metrics import wilson
from evaluation.studies.arms import Bools, Scored

Metric = Literal["first", "all"]
"""Pass@First or Pass@All."""


class PairBands:
    """The bands of all pairs of arms in one figure, each computed when it is first asked for."""

    def __init__(self, scored: Scored, metric: Metric) -> None:
        self.scored, self.metric = scored, metric
        self._bands: dict[tuple[int, int], PairBand] = {}

    def decide(self, a: int, b: int, budget_s: float, margin: float = MARGIN) -> PairDecision:
        """Arm `a` against arm `b` at a budget up to the last of the study."""
        if a > b:
            return self.decide(b, a, budget_s, margin).reverse()
        if (a, b) not in self._bands:
            self._bands[a, b] = compute_band(self.scored, a, b, self.metric)
        return self._bands[a, b].decide(budget_s, margin)

    def leads_clearly(self, arm: int, budget_s: float) -> bool:
        """Whether the arm is better than every other one."""
        others = (other for other in range(len(self.scored.arms)) if other != arm)
        return all(self.decide(arm, other, budget_s).a_is_better for other in others)


def compute_band(scored: Scored, a: int, b: int, metric: Metric) -> PairBand:
    """The band of two arms, of all arms of the study from which the reader chooses."""
    end_s = scored.budgets[-1]
    budgets, first, every = scored.measured.solved_at_changes((a, b), end_s)
    solved = first if metric == "first" else every
    return PairBand(budgets.tolist(), solved[0], solved[1], end_s, len(scored.arms))


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


def wins_and_losses(scored: Scored, metric: Metric, column: int, a: int, b: int) -> tuple[int, int]:
    """How many tasks arm `a` alone solves, and how many arm `b` alone does."""
    of_a, of_b = values(scored, metric)[a, :, column], values(scored, metric)[b, :, column]
    return int(np.sum(of_a & ~of_b)), int(np.sum(of_b & ~of_a))
