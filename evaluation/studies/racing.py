"""Dropping arms early, by a paired test that can be read after every block of tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evaluation.significance import count_upper_tail
from evaluation.studies.arms import ArmComparison

ALPHA = 0.05
"""Highest probability that a study drops an arm that is not worse than the arm it is dropped for."""

SHORTEST_S = 1.0
"""Budgets of interest start at one second: below it hardly any answer is complete."""

MAX_BUDGETS = 3
"""At an eighth of the budget hardly any answer is complete, and an arm that nobody beats there is never dropped."""


@dataclass(frozen=True, slots=True)
class Drop:
    """An arm that is worse than another at every budget of interest."""

    arm: str
    by: str
    n_tasks: int  # that all running arms have
    e_value: float  # the lowest of this pair over the budgets of interest


def list_budgets_of_interest(budget_s: float) -> tuple[float, ...]:
    """The study's budget, its half and its quarter down to one second, in seconds, ascending.

    They depend on nothing but the budget, so that no result can choose the budgets at which it is tested.
    """
    halves = [budget_s / 2**power for power in range(MAX_BUDGETS)]
    return tuple(sorted(half for half in halves if half >= SHORTEST_S or half == budget_s))


def compute_e_value(wins: int, losses: int) -> float:
    """Evidence that a win is more probable than a loss: if it is not, at most 1 in expectation at any
    stopping time.

    The likelihood ratio against p = 1/2, averaged over p uniform in (1/2, 1): the mixture martingale of Robbins (Annals
    of Mathematical Statistics 41, 1970); Ramdas et al., Statistical Science 38 (2023), arXiv 2210.01948, for its use.
    By Ville's inequality it ever reaches 1 / alpha with a probability of at most alpha. It assumes that, whatever came
    before, the next task on which the two differ is a win with a probability of at most 1/2.
    """
    n = wins + losses
    # The area of p**wins * (1 - p)**losses over (1/2, 1), times 2**(n + 1): a ratio of two integers.
    log_e = math.log(count_upper_tail(n + 1, losses + 1)) - math.log((n + 1) * math.comb(n, wins))
    return math.exp(min(log_e, 700.0))  # the largest float is near e**709


def find_dropped(
    compared: ArmComparison, started: int, budgets: Sequence[float], alpha: float = ALPHA
) -> tuple[Drop, ...]:
    """The arms to drop now, over the tasks that all of them have.

    `started` is how many arms the study began with, of which some still run: A arms have A (A - 1) ordered pairs,
    each of which may err with a probability of alpha / (A (A - 1)). An arm goes when one other arm's e-value on
    Pass@First reaches the inverse of that at every budget at which either has solved a task, and when it is ahead in
    Pass@All at none of them either, so that no frontier loses its leader.
    """
    threshold = started * (started - 1) / alpha
    places, found = range(len(compared.arms)), []
    for worse in places:
        drops = [_find_drop(compared, worse, better, budgets, threshold) for better in places if better != worse]
        found.append(max((drop for drop in drops if drop), key=lambda drop: drop.e_value, default=None))
    return tuple(drop for drop in found if drop)


def _find_drop(
    compared: ArmComparison, worse: int, better: int, budgets: Sequence[float], threshold: float
) -> Drop | None:
    solved = {budget: [compared.count("all", arm, budget) for arm in (worse, better)] for budget in budgets}
    seen = [budget for budget, counts in solved.items() if any(counts)]
    if not seen or any(solved[budget][0] > solved[budget][1] for budget in budgets):
        return None
    e_value = min(compute_e_value(*compared.count_wins_and_losses("first", better, worse, budget)) for budget in seen)
    if e_value < threshold:
        return None
    return Drop(compared.arms[worse].name, compared.arms[better].name, compared.n_tasks, e_value)
