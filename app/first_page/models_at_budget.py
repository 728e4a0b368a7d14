"""The models of an answer at a budget: the best configuration of each, and what is shown about the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from app.first_page.answer import FirstPageAnswer
from app.leaderboard.entries import LeaderboardEntry
from app.web.ui.display import shorten_model
from evaluation.metrics import Curve
from evaluation.studies.answer import BudgetAnswer, choose_arm

COLUMNS_S = (1.0, 3.0, 5.0, 10.0)
"""Budgets in seconds that the table has columns for, beside the chosen one."""

Standing = Literal["used", "worse", "as_good", "undecided", "unmeasured"]
"""How a model compares with the one to use; `unmeasured`: its budget was shorter."""


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A model by its best configuration at the chosen budget, the `run`.

    Shares are Pass@First over the tasks of the answer.
    """

    model: str  # a short name that tells it from the others
    run: LeaderboardEntry
    standing: Standing
    share: float  # at the chosen budget, or at the run's own if that is smaller
    interval: tuple[float, float]  # of `share`, Wilson's
    shares: tuple[float | None, ...]  # of the best configuration at each column's budget; None past its own
    curve: Curve  # to the run's own budget
    tasks_to_decide: int | None = None  # to tell it from the model to use


@dataclass(frozen=True, slots=True)
class ModelsAtBudget:
    """`rows` are ordered by their shares at `shown_s`, the budget or the longest one that was measured.

    Past what was measured there is no `answer`.
    """

    answer: BudgetAnswer | None
    shown_s: float
    columns_s: Sequence[float]
    rows: Sequence[ModelRow]

    @property
    def used(self) -> ModelRow | None:
        """The model to use, or the best so far; None while no chosen sample passes."""
        return next((row for row in self.rows if row.standing == "used"), None)

    def select(self, standing: Standing) -> list[ModelRow]:
        """The models with this standing, the best first."""
        return [row for row in self.rows if row.standing == standing]


def rank_models(page_answer: FirstPageAnswer, budget_s: float) -> ModelsAtBudget:
    """The models of the page_answer at a budget."""
    answer, shown_s = page_answer.at(budget_s), min(budget_s, page_answer.budget_s)
    columns_s = sorted({shown_s, *(column_s for column_s in COLUMNS_S if column_s <= page_answer.budget_s)})
    targets = list(dict.fromkeys(arm.target for arm in page_answer.compared.arms))
    names = _name_models(targets)
    rows = []
    for target in targets:
        arm = _choose_configuration(page_answer, target, shown_s, answer)
        shares = [_compute_share(page_answer, target, column_s) for column_s in columns_s]
        rows.append(_make_row(page_answer, arm, names[target], shown_s, shares, answer))
    rows.sort(key=lambda row: (row.standing == "unmeasured", -row.share))
    return ModelsAtBudget(answer, shown_s, columns_s, rows)


def _name_models(targets: Sequence[str]) -> Mapping[str, str]:
    short = {target: shorten_model(target) for target in targets}
    return short if len(set(short.values())) == len(targets) else {target: target for target in targets}


def _choose_configuration(
    page_answer: FirstPageAnswer, target: str, budget_s: float, answer: BudgetAnswer | None
) -> str:
    """The arm that stands for a model: the one to use, by the rule that chooses among all arms."""
    if answer and answer.use and page_answer.runs[answer.use].target == target:
        return answer.use
    own_s = max(run.budget_s for run in page_answer.runs.values() if run.target == target)
    compared = page_answer.compare_at(min(budget_s, own_s))
    places = [place for place, arm in enumerate(compared.arms) if arm.target == target]
    choice = choose_arm(compared, "first", min(budget_s, own_s), among=places)
    if choice is not None:
        return compared.arms[choice.use].name
    leader = compared.find_leader("first", compared.end_s, places)  # else the arm that leads at the longest budget
    return compared.arms[places[0] if leader is None else leader].name


def _compute_share(page_answer: FirstPageAnswer, target: str, budget_s: float) -> float | None:
    """Pass@First of the model's best configuration at a budget; None where none had so much time."""
    arm = _choose_configuration(page_answer, target, budget_s, page_answer.at(budget_s))
    if page_answer.runs[arm].budget_s < budget_s:
        return None
    return page_answer.compared.compute_share(
        "first", [one.name for one in page_answer.compared.arms].index(arm), budget_s
    )


def _make_row(
    page_answer: FirstPageAnswer,
    arm: str,
    model: str,
    shown_s: float,
    shares: Sequence[float | None],
    answer: BudgetAnswer | None,
) -> ModelRow:
    run, compared = page_answer.runs[arm], page_answer.compared
    place = [one.name for one in compared.arms].index(arm)
    standing, against = _compare_with_used(page_answer, run.target, answer)
    own_s = min(shown_s, run.budget_s)
    return ModelRow(
        model,
        run,
        standing,
        share=compared.compute_share("first", place, own_s),
        interval=compared.compute_interval("first", place, own_s),
        shares=tuple(shares),
        curve=compared.outcomes.build_curve(place, run.budget_s),
        tasks_to_decide=_count_tasks_to_decide(page_answer, answer, against) if answer and against else None,
    )


def _compare_with_used(
    page_answer: FirstPageAnswer, target: str, answer: BudgetAnswer | None
) -> tuple[Standing, str | None]:
    """(what is shown about a model, its undecided configuration): "worse" if all its configurations are."""
    if answer is None or answer.use is None:
        return "undecided", None
    if page_answer.runs[answer.use].target == target:
        return "used", None
    if all(run.budget_s < answer.budget_s for run in page_answer.runs.values() if run.target == target):
        return "unmeasured", None
    if undecided := [arm for arm in answer.undecided if page_answer.runs[arm].target == target]:
        return "undecided", undecided[0]
    return "as_good" if any(page_answer.runs[arm].target == target for arm in answer.as_good) else "worse", None


def _count_tasks_to_decide(page_answer: FirstPageAnswer, answer: BudgetAnswer, against: str) -> int | None:
    compared = page_answer.compare_at(answer.budget_s)
    places = {arm.name: place for place, arm in enumerate(compared.arms)}
    return compared.decide("first", places[answer.use or ""], places[against], answer.budget_s).tasks_to_decide
