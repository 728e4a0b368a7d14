"""Tests of two runs over the same tasks.

They are paired by task. At 164 tasks of which 10 % differ between the runs, a paired test detects a difference of 7
points, an unpaired one 15.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

from evaluation.metrics import MetricError

POWER = 0.8
"""Probability with which a study or an audit is planned to find a difference."""

ALPHA = 0.05
"""The level of a test: a difference counts if chance alone would show it less often."""

LEAST_DISCORDANT = 6
"""How many tasks must differ, all in favour of one run, for McNemar's p, here 2 * 0.5**6, to be below ALPHA.

A run that solves fewer tasks than this cannot be shown to be better than any other.
"""


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


def count_standard_errors(power: float, alpha: float) -> float:
    """How many standard errors a difference needs to be found with this power by a two-sided test at alpha."""
    normal = NormalDist()
    return normal.inv_cdf(1 - alpha / 2) + normal.inv_cdf(power)
