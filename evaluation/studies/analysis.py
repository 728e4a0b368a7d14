"""Everything a study says, from the samples of its arms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evaluation.decisions import MARGIN
from evaluation.metrics import BUDGET_GRID, Curve, MetricError, compute_wilson_interval
from evaluation.studies.answer import BudgetAnswer, answer_at, list_named_budgets
from evaluation.studies.arms import ArmComparison
from evaluation.studies.paper_table import PaperRow, build_paper_table
from evaluation.studies.samples import FamilySamples, compare_samples
from evaluation.studies.speculation import SpeculationPair, measure_speculation

SHARES = (0.2, 0.4, 0.6, 0.8)
"""Values of Pass@First that people ask for."""

WithInterval = tuple[float, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class ArmCurve:
    """The exact curve of one arm up to the study's budget, over the `n_tasks` common tasks."""

    arm: str
    n_tasks: int
    curve: Curve

    def get_shares_at(self, budget_s: float) -> tuple[WithInterval, WithInterval]:
        """(Pass@First, Pass@All) at a budget in seconds, each a share with Wilson's interval."""
        first, every = self.curve.get_shares_at(budget_s)
        return self._add_interval(first), self._add_interval(every)

    def _add_interval(self, share: float) -> WithInterval:
        return share, compute_wilson_interval(round(share * self.n_tasks), self.n_tasks)


@dataclass(frozen=True, slots=True)
class ShareReached:
    """The smallest budget at which Pass@First is at least a share."""

    share: float
    budget_s: float | None  # seconds; None where no arm reaches the share within the study's budget
    arm: str | None  # the arm that reaches it there; of several the cheapest


@dataclass(frozen=True, slots=True)
class Analysis:
    """What a study says. Budgets are in seconds."""

    compared: ArmComparison
    budgets: tuple[float, ...]  # round ones up to the study's own, which is the last
    curves: tuple[ArmCurve, ...]
    answers: tuple[BudgetAnswer, ...]  # at `list_named_budgets`, with the usual margin
    reached: tuple[ShareReached, ...]  # the budget that each share of the tasks takes
    paper_table: tuple[PaperRow, ...]
    samples: tuple[FamilySamples, ...]  # at the budgets of `answers`
    speculation: tuple[SpeculationPair, ...]  # at the same budgets

    @property
    def tasks_common(self) -> tuple[str, ...]:
        """The ids of the tasks that all arms have graded."""
        return self.compared.task_ids

    def answer_at(self, budget_s: float, margin: float = MARGIN) -> BudgetAnswer:
        """The answer at any budget up to the study's. Raises MetricError for a longer one."""
        return answer_at(self.compared, budget_s, margin)

    def list_answers(self, margin: float) -> tuple[BudgetAnswer, ...]:
        """`answers` with another margin."""
        if margin == MARGIN:
            return self.answers
        return tuple(self.answer_at(answer.budget_s, margin) for answer in self.answers)

    def list_samples(self, budget_s: float | None) -> tuple[FamilySamples, ...]:
        """`samples`, also at this budget."""
        if budget_s is None or not self.samples:
            return self.samples
        return compare_samples(self.compared, sorted({*self.samples[0].budgets, budget_s}))


def list_study_budgets(budget_s: float) -> tuple[float, ...]:
    """`BUDGET_GRID` below the budget of the study, and that budget."""
    return (*(budget for budget in BUDGET_GRID if budget < budget_s), budget_s)


def analyse(compared: ArmComparison) -> Analysis:
    """What the tasks that all arms have graded say, up to the study's budget. Raises MetricError for no budget."""
    if not 0 < compared.end_s < math.inf:
        raise MetricError(f"the budget of the study is {compared.end_s} s: it must be a number above 0")
    curves, named = compared.curves, list_named_budgets(compared.end_s)
    return Analysis(
        compared=compared,
        budgets=list_study_budgets(compared.end_s),
        curves=tuple(
            ArmCurve(arm.name, compared.n_tasks, curve) for arm, curve in zip(compared.arms, curves, strict=True)
        ),
        answers=tuple(answer_at(compared, budget) for budget in named),
        reached=tuple(_find_reached(compared, curves, share) for share in SHARES),
        paper_table=build_paper_table(compared),
        samples=compare_samples(compared, named),
        speculation=measure_speculation(compared, named),
    )


def _find_reached(compared: ArmComparison, curves: Sequence[Curve], share: float) -> ShareReached:
    """The arm that reaches the share first, read off the exact curves."""
    times = [
        (next(budget for budget, value in zip(one.budgets, one.pass_first, strict=True) if value >= share), arm)
        for arm, one in zip(compared.arms, curves, strict=True)
        if max(one.pass_first) >= share
    ]
    budget_s, arm = min(times, key=lambda found: (found[0], found[1].cost_s), default=(None, None))
    return ShareReached(share, budget_s, arm.name if arm else None)
