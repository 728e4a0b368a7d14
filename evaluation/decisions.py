"""Whether a configuration is better than another, as good, or neither is shown: the one place that decides it.

Two runs over the same tasks, budget by budget. A verdict comes from a band over all budgets up to the last, so that it
holds although the reader chooses the budget. docs/decisions.md explains the rules and gives their error rates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evaluation.metrics import RESAMPLES, Bools, Floats, Ints, MetricError
from evaluation.significance import ALPHA, LEAST_DISCORDANT, POWER

PairVerdict = Literal["better", "as_good", "undecided"]

MARGIN = 0.05
"""A difference of Pass@First, as a share of the tasks, below which two configurations are as good as each other."""

MAX_TASKS = 100_000
"""A larger number of tasks is reported as None."""

STEPS = (1.0, 1.25, 1.6, 2.0, 2.5, 3.15, 4.0, 5.0, 6.3, 8.0)
"""Where verdicts may change within a factor of ten: the preferred numbers of ISO 3 (R10)."""

LEAST_TESTS = 2.0
"""A band counts for at least so many tests. At 5 % the score test is then as strict as McNemar's exact test: six tasks
won and none lost are the fewest that decide."""

MAX_COLUMNS = 128
"""Budgets that set a band's width; between neighbouring ones hardly a task changes."""


@dataclass(frozen=True, slots=True)
class PairDecision:
    """A against B at a budget. Differences are A - B as shares of the tasks.

    The intervals hold at every budget from `from_s` (exclusive) to `to_s` seconds, and all such intervals of a study
    hold together with a probability of 95 %.
    """

    budget_s: float
    from_s: float
    to_s: float
    difference: float
    low: float  # of the two-sided interval
    high: float
    at_least: float  # the one-sided lower limit
    at_most: float  # the one-sided upper limit
    margin: float
    verdict: PairVerdict  # "better": A or B, by the sign of the difference
    tasks_to_decide: int | None  # of an undecided pair; None above MAX_TASKS

    @property
    def is_better(self) -> bool:
        """Whether A is shown to be better than B."""
        return self.low > 0

    @property
    def is_worse(self) -> bool:
        """Whether B is shown to be better than A."""
        return self.high < 0

    @property
    def is_not_worse(self) -> bool:
        """Whether A is shown to be at most the margin worse than B."""
        return self.at_least > -self.margin

    def reverse(self) -> PairDecision:
        """B against A."""
        return PairDecision(
            self.budget_s, self.from_s, self.to_s, 0.0 - self.difference, 0.0 - self.high, 0.0 - self.low,
            0.0 - self.at_most, 0.0 - self.at_least, self.margin, self.verdict, self.tasks_to_decide,
        )  # fmt: skip


class PairBand:
    """A - B over the budgets up to `end_s`, with simultaneous intervals.

    `a` and `b` say which tasks each solves from each of `budgets` (ascending) on, bool `[T, K]`; before the first
    neither solves any. `budgets` must have every one at which a task changes, or an interval misses what happens
    between. `n_configurations` is the number of configurations among which the reader chooses.
    """

    def __init__(self, budgets: Sequence[float], a: Bools, b: Bools, end_s: float, n_configurations: int = 2) -> None:
        if a.shape != b.shape or a.shape[1] != len(budgets) or not len(a):
            raise MetricError("decision: give the same tasks and budgets for both runs")
        nothing = np.zeros((len(a), 1), dtype=np.int8)
        differences = np.concatenate([nothing, a.astype(np.int8) - b.astype(np.int8)], axis=1)
        self.n_tasks, self.end_s = len(a), end_s
        self._starts = np.array([0.0, *budgets])
        self._wins: Ints = (differences > 0).sum(axis=0)
        self._losses: Ints = (differences < 0).sum(axis=0)
        tests = max(count_effective_tests(differences), LEAST_TESTS)
        self.two_sided = compute_critical_value(ALPHA / 2, tests * math.comb(max(n_configurations, 2), 2))
        one_sided = compute_critical_value(ALPHA, tests * (max(n_configurations, 2) - 1))
        self._steps = list_decision_steps(end_s)
        counts, places = np.unique(np.stack([self._wins, self._losses]), axis=1, return_inverse=True)
        limits = compute_score_interval(self.n_tasks, counts[0], counts[1], np.array([[self.two_sided], [one_sided]]))
        self._limits = tuple(limit[:, places.reshape(-1)] for limit in limits)

    def decide(self, budget_s: float, margin: float = MARGIN) -> PairDecision:
        """The verdict at a budget. Raises MetricError for one past `end_s`: nothing was measured there."""
        if not 0 < budget_s <= self.end_s:
            raise MetricError(f"budget is {budget_s:g}: measured to {self.end_s:g} s")
        step = int(np.searchsorted(self._steps, budget_s)) - 1
        from_s, to_s = self._steps[step], self._steps[step + 1]
        place = int(np.searchsorted(self._starts, budget_s, side="right")) - 1
        difference = float(self._wins[place] - self._losses[place]) / self.n_tasks
        columns = slice(
            int(np.searchsorted(self._starts, from_s, side="right")) - 1,
            int(np.searchsorted(self._starts, to_s, side="right")),
        )
        low, at_least = self._limits[0][:, columns].min(axis=1).tolist()
        high, at_most = self._limits[1][:, columns].max(axis=1).tolist()
        verdict: PairVerdict = "undecided"
        if low > 0 or high < 0:
            verdict = "better"
        elif at_least > -margin and at_most < margin:
            verdict = "as_good"
        return PairDecision(
            budget_s, from_s, to_s, difference, low, high, at_least, at_most, margin, verdict,
            self._count_tasks_to_decide(place, margin) if verdict == "undecided" else None,
        )  # fmt: skip

    def _count_tasks_to_decide(self, place: int, margin: float) -> int | None:
        return count_tasks_to_decide(self.n_tasks, int(self._wins[place] + self._losses[place]), margin, self.two_sided)


def list_decision_steps(end_s: float) -> list[float]:
    """The budgets at which verdicts may change, from 0 to `end_s`, each at least a quarter above the one before.

    The last step ends at `end_s`; where it would be shorter than a quarter it is part of the one before.
    """
    decades = range(-2, 4)
    steps = [round(step * 10.0**decade, 4) for decade in decades for step in STEPS]
    inside = [step for step in steps if step * 1.25 <= end_s * (1 + 1e-9)]
    return [0.0, *inside, end_s]


def compute_critical_value(alpha: float, tests: float) -> float:
    """The quantile of the normal distribution that this many independent tests exceed with probability `alpha`."""
    return -NormalDist().inv_cdf(max(alpha / tests, 1e-300))


def count_effective_tests(differences: NDArray[np.int8]) -> float:
    """How many independent tests the budgets are worth, given the difference of each task at each of them `[T, K]`.

    The supremum over the budgets of the studentized difference is drawn with a Gaussian multiplier for each task
    (Annals of Statistics 41, 2013, p. 2786), which keeps the correlation of the budgets. The result is the
    number of independent tests with the same quantile at 1 - ALPHA. A budget at which too few tasks differ to decide
    anything adds nothing (Tarone, Biometrics 46, 1990).
    """
    tasks = len(differences)
    changed = np.flatnonzero((differences != 0).sum(axis=0) >= LEAST_DISCORDANT)
    if not len(changed) or tasks < 2:
        return 1.0
    places = changed[np.unique(np.linspace(0, len(changed) - 1, MAX_COLUMNS).round().astype(int))]
    centred = differences[:, places] - differences[:, places].mean(axis=0)
    spread = np.sqrt((centred**2).sum(axis=0))
    kept = spread > 0  # all tasks alike: there is nothing to draw
    if not kept.any():
        return 1.0
    standard = (centred[:, kept] / spread[kept]).astype(np.float32)
    supremum = np.abs(_draw_multipliers(tasks) @ standard).max(axis=1)
    inside = math.erf(float(np.quantile(supremum, 1 - ALPHA)) / math.sqrt(2))
    return max(1.0, math.log(1 - ALPHA) / math.log(inside))


@lru_cache(maxsize=8)
def _draw_multipliers(tasks: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal((RESAMPLES, tasks), dtype=np.float32)


def compute_score_interval(n_tasks: int, wins: Ints, losses: Ints, z: float | Floats) -> tuple[Floats, Floats]:
    """Interval of a paired difference of shares, `z` standard errors wide: Tango's (Statistics in Medicine 17, 1998).

    It inverts the score test, which is McNemar's at 0. It keeps its width where no task differs: 0 of n gives
    z^2 / (n + z^2), where the plain interval and the bootstrap collapse. Arrays are broadcast.
    """
    up, down, widths = np.broadcast_arrays(np.asarray(wins, np.float64), np.asarray(losses, np.float64), z)
    low, negative_high = _find_lower_limits(n_tasks, np.stack([up, down]), np.stack([down, up]), widths)
    return low, 0.0 - negative_high


def _find_lower_limits(n: int, up: Floats, down: Floats, z: Floats) -> Floats:
    """By bisection: the statistic falls from above z at -1 to 0 at the observed difference."""
    low, high = np.full(up.shape, -1.0), (up - down) / n
    for _ in range(32):
        middle = (low + high) / 2
        # The maximum-likelihood estimate of the share of lost tasks, given the difference.
        linear = (2 * n - up + down) * middle - up - down
        rest = middle * (1 - middle)
        lost = (np.sqrt(np.maximum(linear**2 + 8 * n * down * rest, 0.0)) - linear) / (4 * n)
        outside = up - down - n * middle > 1e-9 + z * np.sqrt(np.maximum(n * (2 * lost + rest), 0.0))
        low, high = np.where(outside, middle, low), np.where(outside, high, middle)
    return low


def count_tasks_to_decide(n_tasks: int, discordant: int, margin: float, z: float) -> int | None:
    """How many tasks would decide a true difference of `margin` in 80 % of the cases; None if above MAX_TASKS.

    From the margin and the share of tasks on which the two differ, never from the observed difference, which chance
    makes too large or too small. At least one more than there are: these have not decided it.
    """
    # One task is added, since one in n may differ where none was seen. A difference of `margin` needs that share.
    share = max((discordant + 1) / (n_tasks + 2), margin)
    needed = math.ceil(share * ((z + NormalDist().inv_cdf(POWER)) / margin) ** 2)
    return max(n_tasks + 1, needed) if needed <= MAX_TASKS else None
