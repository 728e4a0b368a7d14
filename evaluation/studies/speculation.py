"""What speculation buys: seconds at equal quality, quality at equal seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluation.inference import difference_band
from evaluation.metrics import bootstrap_means
from evaluation.studies.arms import Arm, Scored, score

Floats = NDArray[np.float64]

STEPS = 256
"""Budgets between the first finished sample and the study's budget, on a log grid, at which the curves are read."""


@dataclass(frozen=True, slots=True)
class Gain:
    """A speculative arm against regular decoding at one budget (seconds), with 95 % intervals over tasks.

    Time that regular decoding itself did not need does not count as saved.
    """

    budget_s: float
    plain: float  # Pass@First of regular decoding
    speculative: float  # Pass@First of the speculative arm
    gained: float  # the difference
    gained_interval: tuple[float, float]
    plain_s: float  # when regular decoding reached its best Pass@First within this budget
    # when the speculative arm reached the same share, None if not within the study's budget
    speculative_s: float | None
    saved_s: float | None  # the difference
    # a limit is None where there is no bound: speculation does not get there in more than 2.5 % of the resamples
    saved_interval: tuple[float | None, float | None]


@dataclass(frozen=True, slots=True)
class Speculation:
    """Two arms that differ only in how they draft: regular decoding (`plain`) and a speculative one.

    `gains` has no entry for budgets at which regular decoding has solved nothing: there is no quality to reach.
    """

    plain: str
    speculative: str
    n: int
    gains: tuple[Gain, ...]


def speculation(scored: Scored, budgets: Sequence[float]) -> tuple[Speculation, ...]:
    """Each speculative arm against each regular arm of its pair, at these budgets, up to the last of `scored`."""
    return tuple(
        Speculation(plain.name, arm.name, arm.n, _gains(plain, arm, budgets, scored.budgets[-1]))
        for arm in scored.arms
        for plain in scored.arms
        if arm.speculative and not plain.speculative and arm.pair == plain.pair
    )


def _gains(plain: Arm, arm: Arm, budgets: Sequence[float], last: float) -> tuple[Gain, ...]:
    pair = score((plain, arm), _fine(plain, arm, budgets, last))
    grid = np.asarray(pair.budgets)
    shares = pair.first.mean(axis=1)
    times = _equal_quality(shares[0], shares[1], grid, budgets)
    # With one seed, each resample draws the same tasks for both arms.
    resampled = zip(bootstrap_means(pair.first[0]), bootstrap_means(pair.first[1]), strict=True)
    saved = [np.subtract(*_equal_quality(of_plain, of_arm, grid, budgets)) for of_plain, of_arm in resampled]
    low, high = np.percentile(saved, [2.5, 97.5], axis=0, method="inverted_cdf")  # some may be infinite
    columns = [pair.budgets.index(budget) for budget in budgets]
    band = difference_band(pair.first[1][:, columns], pair.first[0][:, columns], budgets)
    found = []
    for place, (budget, column) in enumerate(zip(budgets, columns, strict=True)):
        if not shares[0, : column + 1].any():
            continue
        plain_s, arm_s = (float(of[place]) for of in times)
        found.append(
            Gain(
                budget_s=budget,
                plain=float(shares[0, column]),
                speculative=float(shares[1, column]),
                gained=band.delta[place],
                gained_interval=(band.low[place], band.high[place]),
                plain_s=plain_s,
                speculative_s=_finite(arm_s),
                saved_s=_finite(plain_s - arm_s),
                saved_interval=(_finite(low[place]), _finite(high[place])),
            )
        )
    return tuple(found)


def _equal_quality(plain: Floats, arm: Floats, grid: Floats, budgets: Sequence[float]) -> tuple[Floats, Floats]:
    """For each budget, when each of two curves `[K]` on `grid` reaches the best share that `plain` has by then.

    Infinite where it never does. Curves are interpolated between the steps of their running maximum: read off the steps
    themselves, a time is too early by up to one step, which the resamples, with fewer and larger steps, overstate.
    """
    at, level = _steps(plain, grid)
    arm_at, arm_level = _steps(arm, grid)
    return np.minimum(budgets, at[-1]), np.interp(np.interp(budgets, at, level), arm_level, arm_at, right=math.inf)


def _steps(curve: Floats, grid: Floats) -> tuple[Floats, Floats]:
    """The budgets at which the running maximum of a curve rises, from the first budget on, and its values there."""
    best = np.maximum.accumulate(curve)
    rises = np.concatenate([[0], 1 + np.flatnonzero(np.diff(best))])
    return grid[rises], best[rises]


def _fine(plain: Arm, arm: Arm, budgets: Sequence[float], last: float) -> list[float]:
    finished = [o.finished_s for o in (*plain.outcomes, *arm.outcomes) if o.finished_s is not None]
    start = min([last, *(time for time in finished if time > 0)])
    return sorted({*np.geomspace(start, last, STEPS).tolist(), *budgets})


def _finite(seconds: float) -> float | None:
    return float(seconds) if math.isfinite(seconds) else None
