"""What the first page is computed from, and the comparison of its configurations at every budget."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from app.first_page.repository import EndedStudy
from app.leaderboard.entries import MEASURED_ELSEWHERE, LeaderboardEntry
from app.runs.clock import Disturbance, find_clock_disturbance
from app.runs.repository import get_run
from app.studies.analysis import compare_named_runs
from app.studies.sentences import MeasuredTasks
from app.web.ui.charts.chart import choose_opening_budget
from evaluation.studies.answer import BudgetAnswer, answer_at
from evaluation.studies.arms import ArmComparison


@dataclass(frozen=True, slots=True)
class AnswerSource:
    """What an answer is computed from: the arms of a study, or runs over the same tasks that were not measured in turn.

    `n_candidates` is the number of runs from which these were chosen.
    """

    runs: Sequence[LeaderboardEntry]
    n_candidates: int
    is_own_code: bool = False  # tasks of a project rather than of a benchmark
    study: EndedStudy | None = None

    @property
    def version(self) -> object:
        """Changes when the answer does."""
        return tuple(run.version for run in self.runs)

    @property
    def n_tasks(self) -> int:
        """An upper bound of the number of common tasks."""
        return min(run.n_tasks for run in self.runs)

    @property
    def disturbed(self) -> list[uuid.UUID]:
        """The runs whose clock was disturbed (app/runs/clock.py)."""
        return [run.id for run in self.runs if run.figures.clock_marks]

    @property
    def preference(self) -> tuple[bool, bool, bool, bool, bool, int]:
        """Orders sources, the best first.

        First what is not own code, then what nothing disturbed, then what
        this service measured, then what compares, first several models, then the largest number of tasks.
        """
        is_elsewhere = self.study is not None and self.study.elsewhere is not None
        compares_nothing = self.study is None and self.n_candidates == 1
        has_one_model = len({run.target for run in self.runs}) == 1
        return self.is_own_code, bool(self.disturbed), is_elsewhere, compares_nothing, has_one_model, -self.n_tasks


@dataclass(frozen=True, slots=True)
class FirstPageAnswer:
    """The comparison at every budget (seconds). Arms are named by the ids of their runs."""

    source: AnswerSource
    compared: ArmComparison  # the arms over the tasks that all of them have graded
    runs: Mapping[str, LeaderboardEntry]  # of each arm; past its own budget nothing is known of it
    opening_s: float  # the budget to begin with
    # cache of compare_at: the comparison among arms with at least this budget
    by_budget: dict[float, ArmComparison] = field(default_factory=dict)

    @property
    def study(self) -> EndedStudy | None:
        """The study that it is from."""
        return self.source.study

    @property
    def n_tasks(self) -> int:
        """How many tasks the arms were compared over."""
        return self.compared.n_tasks

    @property
    def budget_s(self) -> float:
        """The largest budget of an arm."""
        return max(run.budget_s for run in self.runs.values())

    @property
    def measured_here(self) -> bool:
        """Whether this service measured it."""
        return self.study is None or self.study.elsewhere is None

    @property
    def device(self) -> str:
        """Where it was measured."""
        return self.source.runs[0].device.removesuffix(f", {MEASURED_ELSEWHERE}")

    @property
    def disturbance(self) -> Disturbance | None:
        """Why the times are not to be trusted; None if no clock was disturbed."""
        return find_clock_disturbance(run.figures for run in self.source.runs)

    @property
    def over(self) -> MeasuredTasks:
        """What the answer is about."""
        one = self.source.runs[0]
        return MeasuredTasks(
            self.n_tasks, one.dataset, one.dataset_tasks, "of your code" if self.source.is_own_code else ""
        )

    def at(self, budget_s: float) -> BudgetAnswer | None:
        """The answer at a budget, among arms whose own budget is at least that; None beyond `budget_s`."""
        return answer_at(self.compare_at(budget_s), budget_s) if budget_s <= self.budget_s else None

    def compare_at(self, budget_s: float) -> ArmComparison:
        """The arms that had `budget_s` seconds, which must not exceed `self.budget_s`."""
        own_s = [self.runs[arm.name].budget_s for arm in self.compared.arms]
        arms = [place for place, seconds in enumerate(own_s) if seconds >= budget_s]
        end_s = min(own_s[arm] for arm in arms)
        if end_s not in self.by_budget:
            self.by_budget[end_s] = self.compared.select(arms, end_s)
        return self.by_budget[end_s]


def build_answer(session: Session, source: AnswerSource) -> FirstPageAnswer | None:
    """The comparison from this source; None while its runs have no graded task in common."""
    runs = {str(run.id): run for run in source.runs}
    stored = {name: get_run(session, run.id) for name, run in runs.items()}
    compared = compare_named_runs(session, stored, max(run.budget_s for run in source.runs))
    if compared is None:
        return None
    opening_s = choose_opening_budget(compared.curves, min(run.budget_s for run in source.runs))
    return FirstPageAnswer(source, compared, runs, opening_s)
