"""Statistical inference for two runs over the same tasks: tests, intervals, and the smallest detectable difference.

Comparisons are paired by task. At 164 tasks of which 10 % differ between the runs, a paired test detects a difference
of 7 points, an unpaired one 15.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from evaluation.metrics import MetricError, SampleOutcome, Selector, bootstrap_means, solved

ALPHA = 0.05
"""The level of a test: a difference counts if chance alone would show it less often."""

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Run A against run B (the reference) at one budget, over the tasks that both have."""

    n_tasks: int
    budget_s: float
    selector: Selector | None
    a: float
    b: float
    wins: tuple[str, ...]  # tasks that only A solves
    losses: tuple[str, ...]  # tasks that only B solves
    ties: int
    delta: float  # A - B as a share of tasks
    low: float  # of the 95 % interval of delta
    high: float  # of the same interval
    p: float  # of the exact McNemar test
    alpha: float  # level of the test
    # the smallest true delta that this many tasks would show in 80 % of the cases, given the share of tasks on which
    # the two differ
    detectable: float

    @property
    def significant(self) -> bool:
        """Whether chance does not explain the difference at the level `alpha`."""
        return self.p < self.alpha


@dataclass(frozen=True, slots=True)
class Band:
    """A - B at each budget (seconds), with the pointwise 95 % band of a paired bootstrap over tasks."""

    budgets: tuple[float, ...]
    delta: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Crossover:
    """The smallest budget (seconds) from which A leads B and is not behind again; None if there is none."""

    budget_s: float | None
    low: float  # of its bootstrap interval over tasks; infinity: A does not lead at the last budget
    high: float  # of the same interval
    share: float  # of the resamples in which A leads at the last budget


@lru_cache(maxsize=2**16)  # a millisecond each
def mcnemar(wins: int, losses: int) -> float:
    """Exact two-sided p-value of `wins` against `losses` among the tasks on which two runs differ; 1 for none.

    The binomial test of scipy. statsmodels gives the same p, but importing it takes 1.5 s, mostly for pandas.
    """
    if wins < 0 or losses < 0:
        raise MetricError("McNemar: wins and losses are counts, they cannot be negative")
    if wins + losses == 0:
        return 1.0
    return float(stats.binomtest(wins, wins + losses, 0.5).pvalue)


def least_discordant(alpha: float = ALPHA) -> int:
    """How many tasks must differ, all in favour of one run, for McNemar's p to be below `alpha`: 6 at 5 %.

    A run that solves fewer tasks cannot be seen to lose any. p is then 2 * 0.5 ** number of tasks.
    """
    if not 0.0 < alpha < 1.0:
        raise MetricError(f"alpha is {alpha:g}: give a level above 0 and below 1, as 0.05")
    return math.floor(1 - math.log2(alpha)) + 1


def detectable(n_tasks: int, discordant: float, power: float = 0.8, alpha: float = ALPHA) -> float:
    """Smallest true difference of two runs that a paired test over `n_tasks` shows with this `power`.

    `discordant` is the share of tasks on which the runs differ. Normal approximation with the paired standard
    error sqrt(discordant / n), the one under no difference: about 2.8 standard errors. At most 1.
    """
    if n_tasks < 1 or not 0.0 <= discordant <= 1.0:
        raise MetricError("detectable difference: give at least one task and a discordant share between 0 and 1")
    # Even if no task differs in these runs, one in n may: a share of 0 would claim infinite power.
    return min(1.0, _standard_errors(power, alpha) * math.sqrt(max(discordant, 1 / n_tasks) / n_tasks))


def _standard_errors(power: float, alpha: float) -> float:
    """How many standard errors a difference needs to be found with this power by a two-sided test at alpha."""
    return float(stats.norm.ppf(1 - alpha / 2) + stats.norm.ppf(power))


def compare(
    a: Sequence[SampleOutcome],
    b: Sequence[SampleOutcome],
    budget_s: float,
    selector: Selector | None = "mean_logprob",
    alpha: float = ALPHA,
) -> Comparison:
    """A against B at one budget, on Pass@First with `selector` or, with None, on Pass@All.

    `alpha` is the level of the test. Only tasks that both runs have count. Raises MetricError where there are none.
    """
    in_b = {outcome.task_id for outcome in b}
    common = {outcome.task_id for outcome in a if outcome.task_id in in_b}
    if not common:
        raise MetricError("the two runs share no task: compare runs over the same dataset")
    of_a, of_b = (solved([o for o in outcomes if o.task_id in common], (budget_s,)) for outcomes in (a, b))
    place = {task_id: row for row, task_id in enumerate(of_b.task_ids)}
    in_order = [place[task_id] for task_id in of_a.task_ids]
    x, y = (of.all[:, 0] if selector is None else of.first[:, 0] for of in (of_a, of_b))
    return compare_solved(of_a.task_ids, x, y[in_order], budget_s, selector, alpha)


def compare_solved(
    task_ids: Sequence[str], a: Bools, b: Bools, budget_s: float, selector: Selector | None, alpha: float = ALPHA
) -> Comparison:
    """A against B, given which of `task_ids` each of them solves at the budget, bool `[T]`."""
    n = len(task_ids)
    wins, losses = (tuple(task_ids[i] for i in np.flatnonzero(only).tolist()) for only in (a & ~b, b & ~a))
    low, high = paired_interval(n, len(wins), len(losses))
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
        low=low,
        high=high,
        p=mcnemar(len(wins), len(losses)),
        alpha=alpha,
        detectable=detectable(n, (len(wins) + len(losses)) / n, alpha=alpha),
    )


def paired_interval(n_tasks: int, wins: int, losses: int, confidence: float = 0.95) -> tuple[float, float]:
    """Interval of (wins - losses) / n_tasks as (low, high), by Agresti and Min's adjusted Wald method.

    Half a task is added to each of the four cells of the paired table, which keeps the width above zero where no
    task differs, where both the plain Wald interval and the bootstrap collapse.
    """
    if n_tasks < 1 or wins < 0 or losses < 0 or wins + losses > n_tasks:
        raise MetricError(f"interval: {wins} wins and {losses} losses do not fit {n_tasks} tasks")
    n, up, down = n_tasks + 2.0, wins + 0.5, losses + 0.5
    delta = (up - down) / n
    half = float(stats.norm.ppf((1 + confidence) / 2)) * math.sqrt((up + down) / n - delta**2) / math.sqrt(n)
    return max(-1.0, delta - half), min(1.0, delta + half)


def difference_band(a: Bools, b: Bools, budgets: Sequence[float], seed: int = 0) -> Band:
    """A - B over the budgets with a paired bootstrap band, given which tasks each of them solves, bool `[T, K]`."""
    difference, resampled = _differences(a, b, seed)
    low, high = np.percentile(resampled, [2.5, 97.5], axis=0)
    for column in np.flatnonzero((difference == 0).all(axis=0)):
        low[column], high[column] = paired_interval(len(difference), 0, 0)
    return Band(tuple(budgets), *(tuple(values.tolist()) for values in (difference.mean(axis=0), low, high)))


def crossover(a: Bools, b: Bools, budgets: Sequence[float], seed: int = 0) -> Crossover:
    """The budget from which A leads B and is not behind again, if it leads at the last budget; with its 95 % interval.

    `a` and `b` say which tasks each of them solves, bool `[T, K]`. A tie is not a lead: while both runs have solved
    nothing there is no crossover.
    """
    difference, resampled = _differences(a, b, seed)
    grid = np.asarray(budgets, dtype=np.float64)
    crossing = _crossings(difference.mean(axis=0)[None, :], grid)[0]
    crossings = np.sort(_crossings(resampled, grid))
    low, high = np.percentile(crossings, [2.5, 97.5], method="inverted_cdf")  # no interpolation: values may be infinite
    return Crossover(float(crossing) if math.isfinite(crossing) else None, float(low), float(high),
                     float(np.isfinite(crossings).mean()))  # fmt: skip


def _differences(a: Bools, b: Bools, seed: int) -> tuple[Floats, Floats]:
    """A - B per task `[T, K]`, and its means over resampled tasks `[R, K]`: each draws the same tasks for both runs."""
    difference = a.astype(np.float64) - b
    return difference, bootstrap_means(difference, seed)


def _crossings(deltas: Floats, grid: Floats) -> Floats:
    """Per row of `deltas` `[R, K]`, the budget of the first lead after the last deficit; infinite unless the row ends
    above 0."""
    behind = deltas < -1e-12  # means of resampled ties are not exactly zero
    ahead = deltas > 1e-12
    last_behind = np.where(behind.any(axis=1), deltas.shape[1] - 1 - behind[:, ::-1].argmax(axis=1), -1)
    leads = ahead & (np.arange(deltas.shape[1]) > last_behind[:, None])
    return np.where(ahead[:, -1], grid[leads.argmax(axis=1)], math.inf)
