"""Everything a study says, from the samples of its arms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from evaluation.metrics import BUDGET_GRID, Curve, MetricError, wilson
from evaluation.studies.answer import Answer, answers, named_budgets, sentence
from evaluation.studies.arms import Arm, Scored, score
from evaluation.studies.frontier import Frontier, frontier
from evaluation.studies.leaders import Metric, equally_good, leader
from evaluation.studies.paper_table import PaperRow, paper_table
from evaluation.studies.reached import Reached, reached
from evaluation.studies.samples import FamilySamples, samples
from evaluation.studies.speculation import Speculation, speculation

FEW = 4
"""Budgets at which tables show Pass@First and Pass@All."""

MANY = 12
"""Columns of the heat map of n and budget."""

WithInterval = tuple[float, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class ArmCurve:
    """The exact curve of one arm up to the study's budget, over the `n_tasks` common tasks."""

    arm: str
    n_tasks: int
    curve: Curve

    def at(self, budget_s: float) -> tuple[WithInterval, WithInterval]:
        """(Pass@First, Pass@All) at a budget in seconds, each a share with Wilson's interval."""
        first, every = self.curve.at(budget_s)
        return self._with_interval(first), self._with_interval(every)

    def _with_interval(self, share: float) -> WithInterval:
        return share, wilson(round(share * self.n_tasks), self.n_tasks)


@dataclass(frozen=True, slots=True)
class Analysis:
    """What a study says. Budgets are in seconds."""

    scored: Scored  # at BUDGET_GRID up to the study's budget; can be asked for any other
    curves: tuple[ArmCurve, ...]
    answers: tuple[Answer, ...]  # at `named_budgets`
    sentence: str  # the answers in words
    reached: tuple[Reached, ...]  # the budget that each share of the tasks takes
    frontier_first: Frontier
    frontier_all: Frontier
    paper_table: tuple[PaperRow, ...]
    samples: tuple[FamilySamples, ...]  # at a few budgets, from where the arms begin to differ to the study's own
    many: tuple[float, ...]  # more such budgets, for a heat map
    speculation: tuple[Speculation, ...]  # at the budgets of `samples`

    @property
    def tasks_common(self) -> tuple[str, ...]:
        """The ids of the tasks that all arms have graded."""
        return self.scored.task_ids

    @property
    def budgets(self) -> tuple[float, ...]:
        """The grid of the frontiers; the last is the study's own."""
        return self.scored.budgets

    def of_arm(self, arm: str, budget_s: float) -> tuple[WithInterval, WithInterval]:
        """(Pass@First, Pass@All) of an arm at a budget in seconds, each a share with Wilson's interval."""
        return next(one for one in self.curves if one.arm == arm).at(budget_s)

    def answer_at(self, budget_s: float) -> Answer:
        """The answer at any budget up to the study's."""
        return answers(self.scored, (budget_s,))[0]

    def samples_at(self, budgets: Sequence[float]) -> tuple[FamilySamples, ...]:
        """`samples` at other budgets."""
        return samples(self.scored.at(budgets))


def study_budgets(budget_s: float) -> tuple[float, ...]:
    """`BUDGET_GRID` below the budget of the study, and that budget."""
    return (*(budget for budget in BUDGET_GRID if budget < budget_s), budget_s)


def analyse(arms: Sequence[Arm], budget_s: float) -> Analysis:
    """What the tasks that all arms have graded say, up to the study's budget.

    Raises MetricError without arms and without a common task: there is nothing to say yet.
    """
    if not 0 < budget_s < math.inf:
        raise MetricError(f"the budget of the study is {budget_s} s: it must be a number above 0")
    scored = score(arms, study_budgets(budget_s))
    n_tasks = len(scored.task_ids)
    found = answers(scored, named_budgets(budget_s))
    few = distinguishing_budgets(scored, FEW)
    return Analysis(
        scored=scored,
        curves=tuple(ArmCurve(arm.name, n_tasks, scored.curve(place)) for place, arm in enumerate(scored.arms)),
        answers=found,
        sentence=sentence(found, n_tasks),
        reached=reached(scored),
        frontier_first=frontier(scored, "first"),
        frontier_all=frontier(scored, "all"),
        paper_table=paper_table(scored),
        samples=samples(scored.at(few)),
        many=distinguishing_budgets(scored, MANY),
        speculation=speculation(scored, few),
    )


def distinguishing_budgets(scored: Scored, count: int) -> tuple[float, ...]:
    """Up to `count` of the budgets, evenly apart on their grid, from the first at which the paired tests separate two
    arms to the last; if they never do, from the first at which a task is solved."""
    columns = range(len(scored.budgets))
    separated = (column for column in columns if _separates_arms(scored, column))
    solved = (column for column in columns if scored.all[:, :, column].any())
    start = next(separated, next(solved, columns[-1]))
    return tuple(scored.budgets[k] for k in sorted(set(np.linspace(start, columns[-1], count).round().astype(int))))


def _separates_arms(scored: Scored, column: int) -> bool:
    for metric in get_args(Metric):
        best = leader(scored, metric, column)
        if best is not None and len(equally_good(scored, metric, column, best)) < len(scored.arms) - 1:
            return True
    return False
