"""The answer on the first page: which configuration to use at each budget, and what that is known from."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy.orm import Session

from app.leaderboard.entries import Entry, labels_of
from app.runs.clock import describe_disturbance
from app.runs.repository import get_run
from app.states import OPEN_RUN_STATES
from app.studies.analysis import arm_of, compared_arms
from app.studies.presentation import short_names
from app.studies.render import find_disturbance
from app.studies.repository import get_study
from app.studies.sentences import Measured
from app.ui.opening import opening_budget
from evaluation.metrics import BUDGET_GRID, Curve, MetricError
from evaluation.studies.analysis import study_budgets
from evaluation.studies.answer import Answer, answer_at
from evaluation.studies.arms import Scored, score
from evaluation.studies.leaders import PairBands

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

    scored: Scored  # the arms over the tasks that all of them have graded
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
    bands: dict[float, PairBands] = field(default_factory=dict)  # by the smallest budget of the arms that they compare

    @property
    def n_tasks(self) -> int:
        """How many tasks the arms were compared over."""
        return len(self.scored.task_ids)

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
        curves = _curves(self.scored)
        rises = [b for curve in curves for b, share in zip(curve.budgets, curve.pass_first, strict=True) if share]
        return self.at(min(rises)) if rises else None

    def at(self, budget_s: float) -> Answer | None:
        """The answer at a budget, among the arms that had so much time; None past `budget_s`, where none had."""
        names = [name for name, own in self.own_budgets.items() if own >= budget_s]
        if not names:
            return None
        end_s = min(self.own_budgets[name] for name in names)
        if end_s not in self.bands:
            arms = [arm for arm in self.scored.arms if arm.name in names]
            self.bands[end_s] = PairBands(score(arms, study_budgets(end_s)), "first")
        return answer_at(self.bands[end_s], budget_s)


def of_study(session: Session, study_id: uuid.UUID) -> Card | None:
    """What a study says so far, without its archived arms; None while the others have no graded task in common."""
    study = get_study(session, study_id)
    try:
        scored = score(compared_arms(session, study, archived=False), study_budgets(study.budget_s))
    except MetricError:
        return None
    names = {arm.name for arm in scored.arms}
    return Card(
        scored=scored,
        own_budgets=dict.fromkeys(names, study.budget_s),
        runs={arm.name: arm.run_id for arm in study.arms},
        labels=short_names(study),
        dataset=study.dataset.name,
        dataset_tasks=study.dataset.n_tasks,
        device=next((run.device_label for run in study.runs if run.provenance), study.runs[0].device_label),
        study=FromStudy(study.id, study.name, study.state in OPEN_RUN_STATES, study.measured_elsewhere),
        of_runs=len(scored.arms),
        opening_s=opening_budget(_curves(scored), study.budget_s),
        disturbed=[arm.run_id for arm in study.arms if arm.name in names and arm.run.measured.clock_marks],
        disturbance=find_disturbance(study, names),
    )


def of_runs(session: Session, runs: Sequence[Entry]) -> Card:
    """What runs over the same tasks on the same device say, paired by task. There is at least one."""
    chosen = most_telling(runs)
    names = labels_of(chosen)
    arms = [arm_of(session, names[run.id], get_run(session, run.id)) for run in chosen]
    return Card(
        scored=score(arms, study_budgets(max(run.budget_s for run in chosen))),
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


def _curves(scored: Scored) -> list[Curve]:
    return [scored.curve(place) for place in range(len(scored.arms))]
