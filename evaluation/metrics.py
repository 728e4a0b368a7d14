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
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Selector = Literal["mean_logprob"]

_DECADE = (1.0, 1.1, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2, 2.5, 2.8, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 7.0, 8.0, 9.0)
BUDGET_GRID: tuple[float, ...] = tuple(
    budget for ten in (0.1, 1.0, 10.0, 100.0) for step in _DECADE if (budget := round(ten * step, 2)) <= 600.0
)
"""Budgets in seconds that sliders and tables offer, from 0.1 to 600: the preferred numbers of ISO 3 (R''20), so that
every one is shown in full. Curves do not depend on it."""

RESAMPLES = 2000
"""Bootstrap resamples of every band and interval."""


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
class Solved:
    """Per task and budget, whether the chosen sample passes (`first`) and whether any does (`all`), bool `[T, K]`."""

    task_ids: tuple[str, ...]
    budgets: tuple[float, ...]
    first: NDArray[np.bool_]
    all: NDArray[np.bool_]


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

    def at(self, budget_s: float) -> tuple[float, float]:
        """(Pass@First, Pass@All) within `budget_s`: of samples with finished_s <= budget_s, without a tolerance."""
        point = bisect_right(self.budgets, budget_s) - 1
        return (self.pass_first[point], self.pass_all[point]) if point >= 0 else (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds per token as BASS reports them, means over tasks; None where no sample finished."""

    first: float | None  # finish time of the first row to finish over its tokens
    last: float | None  # the same for the last row
    all: float | None  # mean over rows of each row's own time per token


def pass_at_k(n: int, c: int, k: int) -> float:
    """Unbiased probability that at least one of k samples passes, drawn without replacement from n of which c pass.

    1 - C(n - c, k) / C(n, k) (Chen et al., arXiv 2107.03374). Raises MetricError for n < k.
    """
    if not 0 <= c <= n:
        raise MetricError(f"pass@{k}: {c} of {n} samples cannot pass")
    if k < 1:
        raise MetricError(f"pass@{k}: k must be at least 1")
    if n < k:
        raise MetricError(f"pass@{k} needs at least {k} samples per task, there are {n}: choose k up to {n}")
    if n - c < k:
        return 1.0
    return float(1.0 - np.prod(1.0 - k / np.arange(n - c + 1, n + 1)))


def mean_pass_at_k(outcomes: Iterable[SampleOutcome], k: int) -> float:
    """pass@k as a mean over tasks, without a budget: every sample counts, finished or not."""
    tasks = _by_task(outcomes)
    return float(np.mean([pass_at_k(len(rows), sum(r.passed for r in rows), k) for rows in tasks.values()]))


def pass_first(outcomes: Iterable[SampleOutcome], budget_s: float) -> float:
    """Share of tasks whose chosen sample passes, chosen among the samples finished within `budget_s`."""
    return float(solved(outcomes, (budget_s,)).first.mean())


def pass_all(outcomes: Iterable[SampleOutcome], budget_s: float) -> float:
    """Share of tasks with a passing sample finished within `budget_s`."""
    return float(solved(outcomes, (budget_s,)).all.mean())


def curve(outcomes: Iterable[SampleOutcome], budget_s: float) -> Curve:
    """Pass@First and Pass@All at every budget up to `budget_s` seconds, the run's own. Raises as `solved` does."""
    tasks = _by_task(outcomes)
    gains: defaultdict[float, NDArray[np.int64]] = defaultdict(lambda: np.zeros(2, dtype=np.int64))
    for samples in tasks.values():
        before = np.zeros(2, dtype=np.int64)
        for time, *state in _progress(samples):
            after = np.array(state, dtype=np.int64)
            if time <= budget_s and (after != before).any():
                gains[time] += after - before
                before = after
    times = sorted(gains)
    first, every = np.cumsum([gains[time] for time in times], axis=0).T if times else np.zeros((2, 0), dtype=np.int64)
    return Curve.from_counts(times, first, every, len(tasks), budget_s)


def solved(outcomes: Iterable[SampleOutcome], budgets: Sequence[float]) -> Solved:
    """Which tasks are solved at which budget, tasks in order of first appearance.

    The chosen sample is the finished one with the highest mean log-probability; a sample without one ranks last, and
    the lower index wins a tie. Raises MetricError without outcomes.
    """
    tasks = _by_task(outcomes)
    first = np.zeros((len(tasks), len(budgets)), dtype=np.bool_)
    every = np.zeros_like(first)
    for row, samples in enumerate(tasks.values()):
        progress = _progress(samples)
        if progress:
            times, picks, found = zip(*progress, strict=True)
            at = np.searchsorted(times, np.asarray(budgets), side="right") - 1
            first[row] = np.asarray(picks)[at] & (at >= 0)
            every[row] = np.asarray(found)[at] & (at >= 0)
    return Solved(tuple(tasks), tuple(budgets), first, every)


def latency(outcomes: Iterable[SampleOutcome]) -> Latency:
    """Milliseconds per token over the finished samples that have tokens."""
    firsts, lasts, alls = [], [], []
    for rows in _by_task(outcomes).values():
        own = [1000.0 * time / sample.n_tokens for time, sample in _ended(rows) if sample.n_tokens]
        if own:
            firsts.append(own[0])
            lasts.append(own[-1])
            alls.append(math.fsum(own) / len(own))
    if not alls:
        return Latency(None, None, None)
    return Latency(float(np.mean(firsts)), float(np.mean(lasts)), float(np.mean(alls)))


def wilson(k: float, n: float, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's interval for k of n as (low, high) shares. Raises MetricError unless 0 <= k <= n and n > 0.

    E. B. Wilson, JASA 22 (1927), in closed form: a page shows hundreds of intervals, and scipy takes 0.4 ms for each.
    """
    if n < 1 or not 0 <= k <= n:
        raise MetricError(f"interval: {k} of {n} is not a share")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    middle = k + z * z / 2
    half = z * math.sqrt(k * (n - k) / n + z * z / 4)
    low, high = (middle - half) / (n + z * z), (middle + half) / (n + z * z)
    return low if k else 0.0, high if k < n else 1.0


def bootstrap_means(values: NDArray[np.generic], seed: int = 0) -> NDArray[np.float64]:
    """Means over resampled tasks, `[RESAMPLES, K]`, of `values` `[T, K]`. Raises MetricError without tasks.

    Tasks are drawn with replacement, whole rows at a time, so the K values of a task stay together.
    """
    tasks = len(values)
    if tasks == 0:
        raise MetricError("bootstrap: there are no tasks")
    draws = np.random.default_rng(seed).multinomial(tasks, np.full(tasks, 1 / tasks), size=RESAMPLES)
    return np.asarray(draws @ np.asarray(values, dtype=np.float64) / tasks)


def bootstrap_band(
    values: NDArray[np.generic], confidence: float = 0.95, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Pointwise percentile band of the mean over tasks, as (low `[K]`, high `[K]`), for `values` `[T, K]`.

    Where every task has the same value 0 or 1 the bootstrap band would have no width; Wilson's bound replaces
    it. Raises MetricError without tasks.
    """
    matrix = np.asarray(values, dtype=np.float64)
    tasks = len(matrix)
    tail = 50.0 * (1.0 - confidence)
    low, high = np.percentile(bootstrap_means(matrix, seed), [tail, 100.0 - tail], axis=0)
    high[(matrix == 0).all(axis=0)] = wilson(0, tasks, confidence)[1]
    low[(matrix == 1).all(axis=0)] = wilson(tasks, tasks, confidence)[0]
    return low, high


def _by_task(outcomes: Iterable[SampleOutcome]) -> dict[str, list[SampleOutcome]]:
    tasks: defaultdict[str, list[SampleOutcome]] = defaultdict(list)
    for outcome in outcomes:
        tasks[outcome.task_id].append(outcome)
    if not tasks:
        raise MetricError("there are no samples to measure")
    return tasks


def _progress(samples: Sequence[SampleOutcome]) -> list[tuple[float, bool, bool]]:
    """After each finished sample of a task: its time, and whether the sample chosen by then passes, and whether any."""
    found: list[tuple[float, bool, bool]] = []
    chosen = None
    for time, sample in _ended(samples):
        rank = rank_sample(sample.mean_logprob, sample.index)
        if chosen is None or rank > rank_sample(chosen.mean_logprob, chosen.index):
            chosen = sample
        found.append((time, chosen.passed, sample.passed or (bool(found) and found[-1][2])))
    return found


def _ended(rows: Sequence[SampleOutcome]) -> list[tuple[float, SampleOutcome]]:
    """(time, sample) of the samples that count, in the order in which they finished, then by index."""
    ended = [(row.finished_s, row) for row in rows if row.finished_s is not None]
    return sorted(ended, key=lambda pair: (pair[0], pair[1].index))


def rank_sample(mean_logprob: float | None, index: int) -> tuple[float, int]:
    """The key by which finished samples of a task are ranked, the highest first: that one is the chosen sample.

    A higher mean log-probability is better, then a lower index; samples without a log-probability come last.
    """
    return -math.inf if mean_logprob is None or math.isnan(mean_logprob) else mean_logprob, -index
