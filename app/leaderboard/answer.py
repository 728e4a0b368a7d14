"""The answer on the first page: which configuration to use at each budget, and what that is known from."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy.orm import Session

from app.core.states import OPEN_RUN_STATES
from app.leaderboard.entries import Entry, labels_of
from app.runs.clock import describe_disturbance
from app.runs.repository import get_run
from app.studies.analysis import compare_arms, compare_named_runs
from app.studies.presentation import short_names
from app.studies.render import find_disturbance
from app.studies.repository import get_study
from app.studies.sentences import Measured
from app.web.ui.opening import opening_budget
from evaluation.metrics import BUDGET_GRID, MetricError
from evaluation.studies.answer import Answer, answer_at
from evaluation.studies.arms import ArmComparison

COMPARED = 8
"""Runs that an answer without a study compares: reading the samples of one takes tenths of a second."""


class FromStudy(NamedTuple):
    """The study that an answer is from."""

    id: uuid.UUID
    name: str
    in_progress: bool
    elsewhere: str | None  # where it was measured; None: here


@dataclass(frozen=True, slots=True)
class Card:
    """The answer at every budget (seconds)."""

    compared: ArmComparison  # the arms over the tasks that all of them have graded
    own_budgets: Mapping[str, float]  # of each arm: past its own nothing is known of it
    runs: Mapping[str, uuid.UUID]  # of each arm
    labels: Mapping[str, str]  # a short name of each arm
    dataset: str
    dataset_tasks: int
    device: str
    study: FromStudy | None  # None: the arms were not measured in turn, and are the best of `of_runs` runs
    of_runs: int
    opening_s: float  # the budget to begin with
    disturbed: Sequence[uuid.UUID]  # runs whose clock was disturbed (app/runs/clock.py)
    disturbance: str  # how a sentence about them begins; "" where no clock was disturbed
    by_budget: dict[float, ArmComparison] = field(
        default_factory=dict
    )  # arms that had so much time, by the least of it

    @property
    def n_tasks(self) -> int:
        """How many tasks the arms were compared over."""
        return self.compared.n_tasks

    @property
    def shortest_s(self) -> float:
        """The smallest budget of an arm."""
        return min(self.own_budgets.values())

    @property
    def budget_s(self) -> float:
        """The largest budget of an arm."""
        return max(self.own_budgets.values())

    @property
    def measured_here(self) -> bool:
        """Whether this service measured it."""
        return self.study is None or self.study.elsewhere is None

    @property
    def over(self) -> Measured:
        """What the answer is about."""
        return Measured(self.n_tasks, self.dataset, self.dataset_tasks)

    @property
    def first_right(self) -> Answer | None:
        """The answer at the first budget with one, None where no chosen sample passed."""
        first_s = self.compared.first_right_s
        return None if first_s is None else self.at(first_s)

    def at(self, budget_s: float) -> Answer | None:
        """The answer at a budget, among the arms that had so much time; None past `budget_s`, where none had."""
        own = [self.own_budgets[arm.name] for arm in self.compared.arms]
        arms = [place for place, own_s in enumerate(own) if own_s >= budget_s]
        if not arms:
            return None
        end_s = min(own[arm] for arm in arms)
        if end_s not in self.by_budget:
            self.by_budget[end_s] = self.compared.select(arms, end_s)
        return answer_at(self.by_budget[end_s], budget_s)


def of_study(session: Session, study_id: uuid.UUID) -> Card | None:
    """What a study says so far, without its archived arms; None while the others have no graded task in common."""
    study = get_study(session, study_id)
    compared = compare_arms(session, study, archived=False)
    if compared is None:
        return None
    names = {arm.name for arm in compared.arms}
    return Card(
        compared=compared,
        own_budgets=dict.fromkeys(names, study.budget_s),
        runs={arm.name: arm.run_id for arm in study.arms},
        labels=short_names(study),
        dataset=study.dataset.name,
        dataset_tasks=study.dataset.n_tasks,
        device=next((run.device_label for run in study.runs if run.provenance), study.runs[0].device_label),
        study=FromStudy(study.id, study.name, study.state in OPEN_RUN_STATES, study.measured_elsewhere),
        of_runs=len(compared.arms),
        opening_s=opening_budget(compared.curves, study.budget_s),
        disturbed=[arm.run_id for arm in study.arms if arm.name in names and arm.run.measured.clock_marks],
        disturbance=find_disturbance(study, names),
    )


def of_runs(session: Session, runs: Sequence[Entry]) -> Card:
    """What runs over the same tasks on the same device say, paired by task. There is at least one."""
    chosen = most_telling(runs)
    names = labels_of(chosen)
    named = {names[run.id]: get_run(session, run.id) for run in chosen}
    compared = compare_named_runs(session, named, max(run.budget_s for run in chosen))
    if compared is None:
        raise MetricError("the runs of an answer have no graded task in common")
    return Card(
        compared=compared,
        own_budgets={names[run.id]: run.budget_s for run in chosen},
        runs={names[run.id]: run.id for run in chosen},
        labels={name: name for name in names.values()},
        dataset=runs[0].dataset,
        dataset_tasks=runs[0].dataset_tasks,
        device=runs[0].device,
        study=None,
        of_runs=len(runs),
        opening_s=opening_budget([run.curve for run in runs], min(run.budget_s for run in chosen)),
        disturbed=[run.id for run in chosen if run.figures.clock_marks],
        disturbance=describe_disturbance(run.figures for run in chosen),
    )


def most_telling(runs: Sequence[Entry]) -> list[Entry]:
    """The runs to compare, at most COMPARED: those that lead at the most budgets, then those with the best curves."""
    shares = {run.id: [run.curve.at(budget) for budget in BUDGET_GRID] for run in runs}
    best = [max(at) for at in zip(*shares.values(), strict=True)]

    def merit(run: Entry) -> tuple[int, float]:
        own = shares[run.id]
        return sum(a == b for a, b in zip(own, best, strict=True)), sum(first for first, _ in own)

    return sorted(runs, key=merit, reverse=True)[:COMPARED]
