"""Runs over the same tasks, compared pair by pair: their shares, and what is decided about each pair.

How overlays, `runs compare`, studies and the first page compare configurations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evaluation.decisions import MARGIN, PairBand, PairDecision
from evaluation.metrics import Curve, compute_wilson_interval
from evaluation.outcomes import Figure, PairedOutcomes
from evaluation.significance import compute_mcnemar_p

Interval = tuple[float, float]


class PairedRuns:
    """Runs up to `end_s` seconds; the reader chooses among `n_configurations` (default: these)."""

    def __init__(self, outcomes: PairedOutcomes, end_s: float, n_configurations: int | None = None) -> None:
        self.outcomes, self.end_s = outcomes, end_s
        self.n_configurations = n_configurations or outcomes.n_runs
        self._bands: dict[tuple[Figure, int, int], PairBand] = {}

    @property
    def task_ids(self) -> tuple[str, ...]:
        """The tasks that all runs have graded."""
        return self.outcomes.task_ids

    @property
    def n_tasks(self) -> int:
        """How many tasks these are."""
        return self.outcomes.n_tasks

    @property
    def curves(self) -> list[Curve]:
        """The curve of each run up to `end_s`."""
        return [self.outcomes.build_curve(run, self.end_s) for run in range(self.outcomes.n_runs)]

    @property
    def first_right_s(self) -> float | None:
        """The smallest budget at which the chosen sample of any run is right; None where none ever is."""
        curves = self.curves
        rises = [b for curve in curves for b, share in zip(curve.budgets, curve.pass_first, strict=True) if share]
        return min(rises, default=None)

    def compute_share(self, figure: Figure, run: int, budget_s: float) -> float:
        """The share of the tasks that a run solves within the budget."""
        return self.outcomes.compute_share(figure, budget_s, run)

    def count(self, figure: Figure, run: int, budget_s: float) -> int:
        """How many tasks a run solves within the budget."""
        return int(self.outcomes.find_solved(figure, budget_s)[run].sum())

    def compute_interval(self, figure: Figure, run: int, budget_s: float) -> Interval:
        """Wilson's interval of a run's share."""
        return compute_wilson_interval(self.count(figure, run, budget_s), self.n_tasks)

    def build_band(self, figure: Figure, a: int, b: int, stretch: Sequence[float] | None = None) -> PairBand:
        """Run `a` against run `b` at all budgets. With `stretch`, the times of each are multiplied by its factor."""
        budgets, *figures = self.outcomes.find_solved_at_changes((a, b), self.end_s, stretch)
        of_a, of_b = figures[figure == "all"]
        return PairBand(budgets.tolist(), of_a, of_b, self.end_s, self.n_configurations)

    def decide(self, figure: Figure, a: int, b: int, budget_s: float, margin: float = MARGIN) -> PairDecision:
        """Run `a` against run `b` at a budget up to `end_s`. Raises MetricError for a longer one."""
        if a > b:
            return self.decide(figure, b, a, budget_s, margin).reverse()
        if (figure, a, b) not in self._bands:
            self._bands[figure, a, b] = self.build_band(figure, a, b)
        return self._bands[figure, a, b].decide(budget_s, margin)

    def count_wins_and_losses(self, figure: Figure, a: int, b: int, budget_s: float) -> tuple[int, int]:
        """How many tasks run `a` alone solves, and how many run `b` alone does."""
        of_a, of_b = self.outcomes.find_solved(figure, budget_s)[[a, b]]
        return int(np.sum(of_a & ~of_b)), int(np.sum(of_b & ~of_a))

    def compute_p(self, figure: Figure, a: int, b: int, budget_s: float) -> float:
        """McNemar's p of run `a` against run `b` at this budget alone."""
        return compute_mcnemar_p(*self.count_wins_and_losses(figure, a, b, budget_s))
