"""Everything a study says, from the samples of its arms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.decisions import MARGIN
from evaluation.metrics import BUDGET_GRID, Curve, MetricError, wilson
from evaluation.studies.answer import Answer, answer_at, named_budgets
from evaluation.studies.arms import Arm, Scored, score
from evaluation.studies.frontier import Frontier, frontier
from evaluation.studies.leaders import PairBands, leader
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
    bands: PairBands  # of Pass@First
    bands_all: PairBands  # of Pass@All
    answers: tuple[Answer, ...]  # at `named_budgets`, with the usual margin
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

    def answer_at(self, budget_s: float, margin: float = MARGIN) -> Answer:
        """The answer at any budget up to the study's. Raises MetricError for a longer one."""
        return answer_at(self.bands, budget_s, margin)

    def answers_with(self, margin: float) -> tuple[Answer, ...]:
        """`answers` with another margin."""
        if margin == MARGIN:
            return self.answers
        return tuple(self.answer_at(answer.budget_s, margin) for answer in self.answers)

    def samples_at(self, budgets: Sequence[float]) -> tuple[FamilySamples, ...]:
        """`samples` at other budgets."""
        return samples(self.scored.at(budgets), (self.bands, self.bands_all))


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
    bands, bands_all = PairBands(scored, "first"), PairBands(scored, "all")
    few = distinguishing_budgets((bands, bands_all), FEW)
    return Analysis(
        scored=scored,
        curves=tuple(ArmCurve(arm.name, n_tasks, scored.curve(place)) for place, arm in enumerate(scored.arms)),
        bands=bands,
        bands_all=bands_all,
        answers=tuple(answer_at(bands, budget) for budget in named_budgets(budget_s)),
        reached=reached(scored),
        frontier_first=frontier(bands),
        frontier_all=frontier(bands_all),
        paper_table=paper_table(scored),
        samples=samples(scored.at(few), (bands, bands_all)),
        many=distinguishing_budgets((bands, bands_all), MANY),
        speculation=speculation(scored, few),
    )


def distinguishing_budgets(bands: Sequence[PairBands], count: int) -> tuple[float, ...]:
    """Up to `count` of the budgets, evenly apart on their grid, from the first at which an arm is better than another
    to the last; if none is, from the first at which a task is solved."""
    scored = bands[0].scored
    columns = range(len(scored.budgets))
    separated = (column for column in columns if any(_separates_arms(one, column) for one in bands))
    solved = (column for column in columns if scored.all[:, :, column].any())
    start = next(separated, next(solved, columns[-1]))
    return tuple(scored.budgets[k] for k in sorted(set(np.linspace(start, columns[-1], count).round().astype(int))))


def _separates_arms(bands: PairBands, column: int) -> bool:
    scored = bands.scored
    best = leader(scored, bands.metric, column)
    if best is None:
        return False
    others = (other for other in range(len(scored.arms)) if other != best)
    return any(bands.decide(best, other, scored.budgets[column]).a_is_better for other in others)
