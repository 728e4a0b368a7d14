"""Everything a study says, from the samples of its arms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from evaluation.metrics import BUDGET_GRID, MetricError
from evaluation.studies.answer import Answer, Segment, answers, segments, sentence
from evaluation.studies.arms import Arm, Scored, score
from evaluation.studies.frontier import Frontier, frontier
from evaluation.studies.leaders import Figure, equally_good, interval, leader
from evaluation.studies.paper_table import PaperRow, paper_table
from evaluation.studies.samples import FamilySamples, samples
from evaluation.studies.speculation import Speculation, speculation

FEW = 4
"""Budgets at which tables show Pass@First and Pass@All."""

MANY = 12
"""Columns of the heat map of n and budget."""


@dataclass(frozen=True, slots=True)
class ArmCurve:
    """Pass@First and Pass@All of one arm at each budget, each with Wilson's interval, over the common tasks."""

    arm: str
    pass_first: tuple[float, ...]
    first_interval: tuple[tuple[float, float], ...]
    pass_all: tuple[float, ...]
    all_interval: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Analysis:
    """What a study says. Budgets are in seconds; curves, answers and frontiers are at each of `budgets`.

    `samples` and `speculation` are at a few budgets, from where the arms begin to differ to the study's own; `grid` is
    as `samples` at more of them, for a heat map. Plain data: `dataclasses.asdict` makes JSON of it.
    """

    tasks_common: tuple[str, ...]
    budgets: tuple[float, ...]
    curves: tuple[ArmCurve, ...]
    answers: tuple[Answer, ...]
    segments: tuple[Segment, ...]
    sentence: str
    frontier_first: Frontier
    frontier_all: Frontier
    paper_table: tuple[PaperRow, ...]
    samples: tuple[FamilySamples, ...]
    grid: tuple[FamilySamples, ...]
    speculation: tuple[Speculation, ...]


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
    found = segments(scored)
    few, many = telling_budgets(scored, FEW), telling_budgets(scored, MANY)
    return Analysis(
        tasks_common=scored.task_ids,
        budgets=scored.budgets,
        curves=tuple(_curve(scored, place) for place in range(len(scored.arms))),
        answers=answers(scored),
        segments=found,
        sentence=sentence(scored, found),
        frontier_first=frontier(scored, "first"),
        frontier_all=frontier(scored, "all"),
        paper_table=paper_table(scored),
        samples=samples(scored.at(few)),
        grid=samples(scored.at(many)),
        speculation=speculation(scored, few),
    )


def telling_budgets(scored: Scored, count: int) -> tuple[float, ...]:
    """Up to `count` of the budgets, evenly apart on their grid, from the first at which the paired tests tell two arms
    apart to the last; if they never do, from the first at which a task is solved."""
    columns = range(len(scored.budgets))
    told = (column for column in columns if _told_apart(scored, column))
    solved = (column for column in columns if scored.all[:, :, column].any())
    start = next(told, next(solved, columns[-1]))
    return tuple(scored.budgets[k] for k in sorted(set(np.linspace(start, columns[-1], count).round().astype(int))))


def _told_apart(scored: Scored, column: int) -> bool:
    for figure in get_args(Figure):
        best = leader(scored, figure, column)
        if best is not None and len(equally_good(scored, figure, column, best)) < len(scored.arms) - 1:
            return True
    return False


def _curve(scored: Scored, place: int) -> ArmCurve:
    columns = range(len(scored.budgets))
    return ArmCurve(
        arm=scored.arms[place].name,
        pass_first=tuple(scored.first[place].mean(axis=0).tolist()),
        first_interval=tuple(interval(scored, "first", place, column) for column in columns),
        pass_all=tuple(scored.all[place].mean(axis=0).tolist()),
        all_interval=tuple(interval(scored, "all", place, column) for column in columns),
    )
