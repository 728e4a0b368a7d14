"""Metrics under a time budget, as pure functions of stored samples.

One run gives the metrics of every smaller budget: a sample counts at budget B if it finished within B, so Pass@All(B)
is the distribution of the time to the first correct sample. This holds because decoding does not adapt to the budget.
It does not hold for another n: the batch size changes the time per token.

Shares are in [0, 1], times in seconds since the engine started on the task. Every task counts, even one without a
finished sample, so every task of the run needs at least one row in `outcomes`.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_DECADE = (1.0, 1.1, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2, 2.5, 2.8, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 7.0, 8.0, 9.0)
BUDGET_GRID: tuple[float, ...] = tuple(
    budget for ten in (0.1, 1.0, 10.0, 100.0) for step in _DECADE if (budget := round(ten * step, 2)) <= 600.0
)
"""Budgets in seconds that sliders and tables offer, from 0.1 to 600: the preferred numbers of ISO 3 (R''20), so that
every one is shown in full. Curves do not depend on it."""

RESAMPLES = 2000
"""Draws for a band, resamples for saved seconds."""


class MetricError(ValueError):
    """A metric that these samples do not define; the message names the missing part."""


@dataclass(frozen=True, slots=True)
class SampleOutcome:
    """One sample, as the metrics need it.

    `finished_s` is None for a sample that did not end by itself within the run's budget.
    """

    task_id: str
    index: int
    finished_s: float | None
    mean_logprob: float | None
    passed: bool
    n_tokens: int


@dataclass(frozen=True, slots=True)
class Curve:
    """Pass@First and Pass@All as step functions: the shares of index i hold from `budgets[i]` seconds to the next.

    The budgets are all those at which a share changes, and the last one, where the curve ends.
    """

    budgets: tuple[float, ...]
    pass_first: tuple[float, ...]
    pass_all: tuple[float, ...]

    @classmethod
    def from_counts(
        cls, budgets: Sequence[float], first: NDArray[np.int64], every: NDArray[np.int64], n_tasks: int, end_s: float
    ) -> Curve:
        """The curve from the numbers of solved tasks, of `n_tasks`, at each budget (ascending, up to `end_s`)."""
        points: list[tuple[float, int, int]] = []
        for point in zip(budgets, first.tolist(), every.tolist(), strict=True):
            if point[1:] != (points[-1][1:] if points else (0, 0)):
                points.append(point)
        if not points or points[-1][0] < end_s:
            points.append((end_s, *(points[-1][1:] if points else (0, 0))))
        times, of_first, of_all = zip(*points, strict=True)
        return cls(times, tuple(k / n_tasks for k in of_first), tuple(k / n_tasks for k in of_all))

    def get_shares_at(self, budget_s: float) -> tuple[float, float]:
        """(Pass@First, Pass@All) within `budget_s`: of samples with finished_s <= budget_s, without a tolerance."""
        point = bisect_right(self.budgets, budget_s) - 1
        return (self.pass_first[point], self.pass_all[point]) if point >= 0 else (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds per token as BASS reports them, means over tasks; None where no sample finished."""

    first: float | None  # finish time of the first row to finish over its tokens
    last: float | None  # the same for the last row
    all: float | None  # mean over rows of each row's own time per token


def compute_pass_at_1(outcomes: Iterable[SampleOutcome]) -> float:
    """pass@1 (Chen et al., arXiv 2107.03374): the share of passing samples, as a mean over tasks.

    Without a budget: every sample counts, finished or not.
    """
    passed: defaultdict[str, list[bool]] = defaultdict(list)
    for outcome in outcomes:
        passed[outcome.task_id].append(outcome.passed)
    return float(np.mean([np.mean(rows) for rows in passed.values()]))


def compute_wilson_interval(k: float, n: float, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's interval for k of n as (low, high) shares. Raises MetricError unless 0 <= k <= n and n >= 1.

    E. B. Wilson, JASA 22 (1927), in closed form: a page shows hundreds of intervals, and scipy takes 0.4 ms for each.
    """
    if n < 1 or not 0 <= k <= n:
        raise MetricError(f"interval: {k} of {n} is not a share")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    middle = k + z * z / 2
    half = z * math.sqrt(k * (n - k) / n + z * z / 4)
    low, high = (middle - half) / (n + z * z), (middle + half) / (n + z * z)
    return low if k else 0.0, high if k < n else 1.0


def build_rank_key(mean_logprob: float | None, index: int) -> tuple[float, int]:
    """The key by which finished samples of a task are ranked, the highest first: that one is the chosen sample.

    A higher mean log-probability is better, then a lower index; samples without a log-probability come last.
    """
    return -math.inf if mean_logprob is None or math.isnan(mean_logprob) else mean_logprob, -index
