"""The answer on the first page: which configuration to use at each budget, and what that is known from."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from sqlalchemy.orm import Session

from app.leaderboard.entries import Entry, labels_of
from app.runs.repository import get_run
from app.states import OPEN_RUN_STATES
from app.studies.analysis import arm_of, compared_arms
from app.studies.models import Study
from app.studies.repository import get_study
from app.ui.opening import where_runs_differ_most
from evaluation.metrics import BUDGET_GRID, MetricError
from evaluation.studies.analysis import study_budgets
from evaluation.studies.answer import Answer, answers
from evaluation.studies.arms import Scored, score

COMPARED = 8
"""Runs that an answer without a study compares: reading the samples of one takes tenths of a second."""


@dataclass(frozen=True, slots=True)
class FromStudy:
    """The study that an answer is from. `elsewhere` says where it was measured, None for one of this service."""

    id: uuid.UUID
    name: str
    in_progress: bool
    elsewhere: str | None


@dataclass(frozen=True, slots=True)
class Step:
    """An answer and the budgets (seconds) at which it is the same, for the page's slider."""

    budgets: tuple[float, ...]
    answer: Answer


@dataclass(frozen=True, slots=True)
class Card:
    """The answer at every budget.

    `answers` are those at the budgets (seconds) of the page's slider, and hold at these alone; `at` reads any other off
    `scored`. `runs` has the run of each arm. The arms were compared over the same `n_tasks` of the dataset's
    `dataset_tasks`.
    `study` is None where they were not measured in turn; then they are the best of `of_runs` runs over these tasks.
    `shortest_s` is the smallest budget of an arm and `budget_s` the largest; past its own an arm counts with what it
    had. `opening_s` is the budget to begin with.
    """

    scored: Scored
    answers: tuple[Answer, ...]
    first_right: Answer | None
    own_budgets: Mapping[str, float]
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

    def at(self, budget_s: float) -> Answer:
        """The answer at a budget in seconds; past `budget_s`, the answer at `budget_s`."""
        (answer,) = _answers(self.scored, (min(budget_s, self.budget_s),), self.own_budgets)
        return answer

    def findings(self, budget_s: float) -> list[Step]:
        """The answers of the slider and the one at `budget_s`; of adjacent ones with the same content one."""
        return self._steps(budget_s, lambda answer: replace(answer, budget_s=0.0))

    def headings(self, budget_s: float) -> list[Step]:
        """The same, of adjacent ones with the same arm one."""
        return self._steps(budget_s, lambda answer: answer.arm)

    def _steps(self, budget_s: float, content: Callable[[Answer], object]) -> list[Step]:
        at = min(budget_s, self.budget_s)
        others = [] if any(one.budget_s == at for one in self.answers) else [self.at(at)]
        found = sorted((*self.answers, *others), key=lambda answer: answer.budget_s)
        steps = (list(same) for _, same in groupby(found, key=content))
        return [Step(tuple(answer.budget_s for answer in same), same[0]) for same in steps]


def of_study(session: Session, study_id: uuid.UUID) -> Card | None:
    """What a study says so far, without its archived arms; None while the others have no graded task in common."""
    study = get_study(session, study_id)
    try:
        scored = score(compared_arms(session, study, archived=False), study_budgets(study.budget_s))
    except MetricError:
        return None
    own_budgets = dict.fromkeys((arm.name for arm in scored.arms), study.budget_s)
    return Card(
        scored=scored,
        answers=_answers(scored, scored.budgets, own_budgets),
        first_right=_first_right(scored, own_budgets),
        own_budgets=own_budgets,
        runs={arm.name: arm.run_id for arm in study.arms},
        n_tasks=len(scored.task_ids),
        dataset=study.dataset.name,
        dataset_tasks=study.dataset.n_tasks,
        device=_device(study),
        study=FromStudy(study.id, study.name, study.state in OPEN_RUN_STATES, study.measured_elsewhere),
        of_runs=len(scored.arms),
        shortest_s=study.budget_s,
        budget_s=study.budget_s,
        opening_s=where_runs_differ_most([scored.curve(place) for place in range(len(scored.arms))]),
    )


def of_runs(session: Session, runs: Sequence[Entry]) -> Card:
    """What runs over the same tasks on the same device say, paired by task. There is at least one."""
    chosen = most_telling(runs)
    names = labels_of(chosen)
    own_budget = {names[run.id]: run.budget_s for run in chosen}
    budget_s = max(own_budget.values())
    arms = [arm_of(session, names[run.id], get_run(session, run.id)) for run in chosen]
    scored = score(arms, study_budgets(budget_s))
    return Card(
        scored=scored,
        answers=_answers(scored, scored.budgets, own_budget),
        first_right=_first_right(scored, own_budget),
        own_budgets=own_budget,
        runs={names[run.id]: run.id for run in chosen},
        n_tasks=runs[0].n_tasks,
        dataset=runs[0].dataset,
        dataset_tasks=runs[0].dataset_tasks,
        device=runs[0].device,
        study=None,
        of_runs=len(runs),
        shortest_s=min(own_budget.values()),
        budget_s=budget_s,
        opening_s=where_runs_differ_most([run.curve for run in runs]),
    )


def most_telling(runs: Sequence[Entry]) -> list[Entry]:
    """The runs to compare, at most COMPARED: those that lead at the most budgets, then those with the best curves."""
    shares = {run.id: [run.curve.at(budget) for budget in BUDGET_GRID] for run in runs}
    best = [max(at) for at in zip(*shares.values(), strict=True)]

    def merit(run: Entry) -> tuple[int, float]:
        own = shares[run.id]
        return sum(a == b for a, b in zip(own, best, strict=True)), sum(first for first, _ in own)

    return sorted(runs, key=merit, reverse=True)[:COMPARED]


def _answers(scored: Scored, budgets: Sequence[float], own_budgets: Mapping[str, float]) -> tuple[Answer, ...]:
    return tuple(_within(answer, own_budgets) for answer in answers(scored, budgets))


def _within(answer: Answer, own_budgets: Mapping[str, float]) -> Answer:
    """The answer without a gain of one more second that the run was not given."""
    over = answer.arm and answer.budget_s + 1 > own_budgets[answer.arm]
    return replace(answer, one_second_more=None) if over else answer


def _first_right(scored: Scored, own_budgets: Mapping[str, float]) -> Answer | None:
    """The answer at the first budget with one, None where no chosen sample passed."""
    curves = (scored.curve(place) for place in range(len(scored.arms)))
    rises = [b for curve in curves for b, share in zip(curve.budgets, curve.pass_first, strict=True) if share]
    return _answers(scored, (min(rises),), own_budgets)[0] if rises else None


def _device(study: Study) -> str:
    return next((run.device_label for run in study.runs if run.provenance), study.arms[0].run.device_label)
