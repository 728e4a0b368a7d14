"""The answer of a study: which arm to use at a budget, and which others are not significantly different.

Answers are pointwise: each budget has its own figures and tests, so an answer always names its budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evaluation.inference import tasks_to_detect
from evaluation.studies.arms import Scored
from evaluation.studies.leaders import equally_good, interval, leader, wins_and_losses

MOST_TASKS = 100_000
"""A study of more tasks than this settles nothing in practice."""

NAMED = (1.0, 2.0, 3.0, 5.0, 10.0)
"""Budgets in seconds at which a study gives its answer, beside its own."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The arm to use at one budget."""

    budget_s: float  # seconds
    arm: str | None  # None while no arm's chosen sample has passed
    pass_first: float  # share of the common tasks
    interval: tuple[float, float]  # Wilson's, of `pass_first`
    pass_all: float  # share of the common tasks; without an arm the highest of any arm
    # gain of the same arm in Pass@First within one more second, None where that second is past the last budget
    one_second_more: float | None
    equally_good: tuple[str, ...]  # the arms that are not significantly different, cheapest first
    cheapest: str | None  # of `arm` and `equally_good`: the arm to use where there is no clear winner
    # how many tasks would separate the arm from the best of these in 80 % of the cases, if the difference stays as it
    # is; None without such an arm, if the two are equal, or above 100,000
    tasks_to_settle: int | None


def named_budgets(budget_s: float) -> tuple[float, ...]:
    """The budgets in seconds at which a study of this budget gives its answer."""
    return (*(budget for budget in NAMED if budget < budget_s), budget_s)


def answers(scored: Scored, budgets: Sequence[float] | None = None) -> tuple[Answer, ...]:
    """One answer for each of `budgets`, by default the budgets of `scored`, of which the last is the study's own.

    The arm with the highest Pass@First; of several the one with the higher Pass@All, then the cheapest.
    """
    budgets = scored.budgets if budgets is None else budgets
    here, later = scored.at(budgets), scored.at([budget + 1.0 for budget in budgets])
    found = []
    for column, budget in enumerate(budgets):
        arm = leader(here, "first", column)
        if arm is None:
            highest = float(here.all[:, :, column].mean(axis=1).max())
            found.append(Answer(budget, None, 0.0, interval(here, "first", 0, column), highest, None, (), None, None))
            continue
        share = float(here.first[arm, :, column].mean())
        equal = equally_good(here, "first", column, arm)
        found.append(
            Answer(
                budget_s=budget,
                arm=here.arms[arm].name,
                pass_first=share,
                interval=interval(here, "first", arm, column),
                pass_all=float(here.all[arm, :, column].mean()),
                one_second_more=(
                    float(later.first[arm, :, column].mean()) - share if budget + 1.0 <= scored.budgets[-1] else None
                ),
                equally_good=tuple(here.arms[other].name for other in equal),
                cheapest=min((here.arms[one] for one in (arm, *equal)), key=lambda one: one.cost_s).name,
                tasks_to_settle=_tasks_to_settle(here, column, arm, equal),
            )
        )
    return tuple(found)


def sentence(found: Sequence[Answer], n_tasks: int) -> str:
    """The answers over `n_tasks` in words; the last, at the study's own budget, names the arms it is close to."""
    *before, last = found
    if last.arm is None:
        return f"No chosen sample passed within {last.budget_s:g} s: there is no configuration to name."
    parts = [_in_words(answer, f", {_others(answer)}" if answer.equally_good else "") for answer in before]
    parts.append(_in_words(last, ""))
    if last.equally_good:
        tasks = "this 1 task" if n_tasks == 1 else f"these {n_tasks} tasks"
        names = "; ".join(last.equally_good)  # names of arms have commas
        parts.append(f"On {tasks} it is not distinguishable there from: {names}.")
    if last.tasks_to_settle:
        parts.append(f"About {_two_digits(last.tasks_to_settle):,} tasks would settle it.")
    return " ".join(parts)


def _in_words(answer: Answer, more: str) -> str:
    if answer.arm is None:
        return f"At {answer.budget_s:g} s no chosen sample passes."
    low, high = answer.interval
    share = f"Pass@First {100 * answer.pass_first:.0f} % ({100 * low:.0f} to {100 * high:.0f})"
    return f"At {answer.budget_s:g} s: {answer.arm}: {share}{more}."


def _others(answer: Answer) -> str:
    count = len(answer.equally_good)
    return f"{count} {'other' if count == 1 else 'others'} not distinguishable"


def _tasks_to_settle(scored: Scored, column: int, arm: int, equal: Sequence[int]) -> int | None:
    if not equal:
        return None
    solves = scored.first[:, :, column].sum(axis=1)
    nearest = max(equal, key=lambda other: solves[other])
    wins, losses = wins_and_losses(scored, "first", column, arm, nearest)
    if wins == losses:
        return None
    tasks = len(scored.task_ids)
    # Never fewer than there are: these have not settled it.
    needed = max(tasks + 1, tasks_to_detect((wins - losses) / tasks, (wins + losses) / tasks))
    return needed if needed <= MOST_TASKS else None


def _two_digits(tasks: int) -> int:
    """Rounded to two significant digits: the figure is an estimate."""
    return int(float(f"{tasks:.2g}"))
