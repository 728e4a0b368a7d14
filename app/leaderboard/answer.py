"""The answer on the first page: which configuration to use at each budget, and what that is known from."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from sqlalchemy.orm import Session

from app.leaderboard.entries import Entry
from app.leaderboard.names import distinct
from app.leaderboard.opening import opening_budget
from app.runs.repository import get_run
from app.states import OPEN_RUN_STATES
from app.studies.analysis import arm_of, compared_arms
from app.studies.models import Study
from app.studies.repository import get_study
from evaluation.metrics import BUDGET_GRID, Curve, MetricError
from evaluation.studies.analysis import study_budgets
from evaluation.studies.answer import Answer, answers
from evaluation.studies.arms import Scored, score

COMPARED = 8
"""Runs that an answer without a study compares: reading the samples of one takes tenths of a second."""

NOTHING_YET = Answer(0.0, None, 0.0, (0.0, 0.0), 0.0, None, (), None)
"""Below the first budget of the grid."""


@dataclass(frozen=True, slots=True)
class FromStudy:
    """The study that an answer is from. `elsewhere` says where it was measured, None for one of this service."""

    id: uuid.UUID
    name: str
    at_work: bool
    elsewhere: str | None


@dataclass(frozen=True, slots=True)
class Card:
    """The answer at every budget.

    `steps` are in the order of their budgets (seconds): each holds up to the budget of the next. `runs` has the run of
    each arm that a step names. The arms were compared over the same `n_tasks` of the dataset's `dataset_tasks`.
    `study` is None where they were not measured in turn; then they are the best of `of_runs` runs over these tasks.
    `shortest_s` is the smallest budget of an arm and `budget_s` the largest; past its own an arm counts with what it
    had. `opening_s` is the budget to begin with.
    """

    steps: tuple[Answer, ...]
    runs: Mapping[str, uuid.UUID]
    n_tasks: int
    dataset: str
    dataset_tasks: int
    device: str
    study: FromStudy | None
    of_runs: int
    shortest_s: float
    budget_s: float
    opening_s: float

    @property
    def measured_here(self) -> bool:
        """Whether this service measured it."""
        return self.study is None or self.study.elsewhere is None

    @property
    def first_right(self) -> Answer | None:
        """The first step with an answer."""
        return next((step for step in self.steps if step.arm), None)

    @property
    def arm_steps(self) -> list[Answer]:
        """The steps at which the arm changes."""
        return [self.steps[0], *(step for before, step in pairwise(self.steps) if before.arm != step.arm)]

    def at(self, budget_s: float) -> Answer:
        """The step that holds at a budget in seconds."""
        return _at(self.steps, budget_s)

    def arm_at(self, budget_s: float) -> Answer:
        """The one of `arm_steps` that holds at a budget in seconds."""
        return _at(self.arm_steps, budget_s)


def of_study(session: Session, study_id: uuid.UUID) -> Card | None:
    """What a study says so far, without its archived arms; None while the others have no graded task in common."""
    study = get_study(session, study_id)
    try:
        scored = score(compared_arms(session, study, archived=False), study_budgets(study.budget_s))
    except MetricError:
        return None
    return Card(
        steps=_steps(answers(scored)),
        runs={arm.name: arm.run_id for arm in study.arms},
        n_tasks=len(scored.task_ids),
        dataset=study.dataset.name,
        dataset_tasks=study.dataset.n_tasks,
        device=_device(study),
        study=FromStudy(study.id, study.name, study.state in OPEN_RUN_STATES, study.measured_elsewhere),
        of_runs=len(scored.arms),
        shortest_s=study.budget_s,
        budget_s=study.budget_s,
        opening_s=opening_budget(_curves(scored)),
    )


def of_runs(session: Session, runs: Sequence[Entry]) -> Card:
    """What runs over the same tasks on the same device say, paired by task. There is at least one."""
    chosen = most_telling(runs)
    names = distinct(chosen)
    own_budget = {names[run.id]: run.budget_s for run in chosen}
    budget_s = max(own_budget.values())
    arms = [arm_of(session, names[run.id], get_run(session, run.id)) for run in chosen]
    found = answers(score(arms, study_budgets(budget_s)))
    return Card(
        steps=_steps([_within(answer, own_budget) for answer in found]),
        runs={names[run.id]: run.id for run in chosen},
        n_tasks=runs[0].n_tasks,
        dataset=runs[0].dataset,
        dataset_tasks=runs[0].dataset_tasks,
        device=runs[0].device,
        study=None,
        of_runs=len(runs),
        shortest_s=min(own_budget.values()),
        budget_s=budget_s,
        opening_s=opening_budget([run.curve for run in runs]),
    )


def most_telling(runs: Sequence[Entry]) -> list[Entry]:
    """The runs to compare, at most COMPARED: those that lead at the most budgets, then those with the best curves."""
    shares = {run.id: [run.curve.at(budget) for budget in BUDGET_GRID] for run in runs}
    best = [max(at) for at in zip(*shares.values(), strict=True)]

    def merit(run: Entry) -> tuple[int, float]:
        own = shares[run.id]
        return sum(a == b for a, b in zip(own, best, strict=True)), sum(first for first, _ in own)

    return sorted(runs, key=merit, reverse=True)[:COMPARED]


def _within(answer: Answer, own_budget: Mapping[str, float]) -> Answer:
    """The answer without a gain of one more second that the run was not given."""
    over = answer.arm and answer.budget_s + 1 > own_budget[answer.arm]
    return replace(answer, one_second_more=None) if over else answer


def _steps(found: Sequence[Answer]) -> tuple[Answer, ...]:
    """The answers that differ from the one before."""
    every = (NOTHING_YET, *found)
    return (every[0], *(answer for before, answer in pairwise(every) if _content(answer) != _content(before)))


def _content(answer: Answer) -> Answer:
    """What the card shows of an answer beside its budget."""
    return replace(answer if answer.arm else NOTHING_YET, budget_s=0.0)


def _curves(scored: Scored) -> list[Curve]:
    shares = zip(scored.first.mean(axis=1).tolist(), scored.all.mean(axis=1).tolist(), strict=True)
    return [Curve(scored.budgets, tuple(first), tuple(every)) for first, every in shares]


def _at(steps: Sequence[Answer], budget_s: float) -> Answer:
    return [step for step in steps if step.budget_s <= budget_s * (1 + 1e-9)][-1]


def _device(study: Study) -> str:
    return next((run.device_label for run in study.runs if run.provenance), study.arms[0].run.device_label)
