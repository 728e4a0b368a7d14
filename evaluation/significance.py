"""Statistical inference for two runs over the same tasks: tests, intervals, and the smallest detectable difference.

Comparisons are paired by task. At 164 tasks of which 10 % differ between the runs, a paired test detects a difference
of 7 points, an unpaired one 15.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from evaluation.metrics import Bools, MetricError, Selector

POWER = 0.8
"""Probability with which a study or an audit is planned to find a difference."""

ALPHA = 0.05
"""The level of a test: a difference counts if chance alone would show it less often."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Run A against run B (the baseline) at one budget, over the tasks that both have."""

    n_tasks: int
    budget_s: float
    selector: Selector | None
    a: float
    b: float
    wins: tuple[str, ...]  # tasks that only A solves
    losses: tuple[str, ...]  # tasks that only B solves
    ties: int
    delta: float  # A - B as a share of tasks
    p: float  # of the exact McNemar test
    alpha: float  # level of the test
    # the smallest true delta that this many tasks would show in 80 % of the cases, given the share of tasks on which
    # the two differ
    detectable: float


@lru_cache(maxsize=2**16)
def compute_mcnemar_p(wins: int, losses: int) -> float:
    """Exact two-sided p-value of `wins` against `losses` among the tasks on which two runs differ; 1 for none.

    scipy gives the same p, but importing it takes a second.
    """
    if wins < 0 or losses < 0:
        raise MetricError("McNemar: wins and losses are counts, they cannot be negative")
    n = wins + losses
    return min(1.0, 2 * count_upper_tail(n, max(wins, losses)) / (1 << n))


def count_upper_tail(n: int, least: int) -> int:
    """In how many of the 2**n outcomes of n tosses of a coin there are at least `least` heads."""
    total, term = 0, math.comb(n, least)
    for heads in range(least, n + 1):
        total += term
        term = term * (n - heads) // (heads + 1)
    return total


def compute_least_discordant(alpha: float = ALPHA) -> int:
    """How many tasks must differ, all in favour of one run, for McNemar's p to be below `alpha`: 6 at 5 %.

    A run that solves fewer tasks than this cannot be shown to be better than any other. Where all that differ are in
    favour of one run, p is 2 * 0.5 ** number of tasks.
    """
    if not 0.0 < alpha < 1.0:
        raise MetricError(f"alpha is {alpha:g}: give a level above 0 and below 1, as 0.05")
    return math.floor(1 - math.log2(alpha)) + 1


def compute_detectable_difference(n_tasks: int, discordant: float, power: float = POWER, alpha: float = ALPHA) -> float:
    """Smallest true difference of two runs that a paired test over `n_tasks` shows with this `power`.

    `discordant` is the share of tasks on which the runs differ. Normal approximation with the paired standard
    error sqrt(discordant / n), the one under no difference: about 2.8 standard errors. At most 1.
    """
    if n_tasks < 1 or not 0.0 <= discordant <= 1.0:
        raise MetricError("detectable difference: give at least one task and a discordant share between 0 and 1")
    # Even if no task differs in these runs, one in n may: a share of 0 would claim infinite power.
    return min(1.0, count_standard_errors(power, alpha) * math.sqrt(max(discordant, 1 / n_tasks) / n_tasks))


def count_standard_errors(power: float, alpha: float) -> float:
    """How many standard errors a difference needs to be found with this power by a two-sided test at alpha."""
    normal = NormalDist()
    return normal.inv_cdf(1 - alpha / 2) + normal.inv_cdf(power)


def compare_solved(
    task_ids: Sequence[str], a: Bools, b: Bools, budget_s: float, selector: Selector | None, alpha: float = ALPHA
) -> Comparison:
    """A against B, given which of `task_ids` each of them solves at the budget, bool `[T]`."""
    n = len(task_ids)
    wins, losses = (tuple(task_ids[i] for i in np.flatnonzero(only).tolist()) for only in (a & ~b, b & ~a))
    return Comparison(
        n_tasks=n,
        budget_s=budget_s,
        selector=selector,
        a=float(a.mean()),
        b=float(b.mean()),
        wins=wins,
        losses=losses,
        ties=n - len(wins) - len(losses),
        delta=(len(wins) - len(losses)) / n,
        p=compute_mcnemar_p(len(wins), len(losses)),
        alpha=alpha,
        detectable=compute_detectable_difference(n, (len(wins) + len(losses)) / n, alpha=alpha),
    )
