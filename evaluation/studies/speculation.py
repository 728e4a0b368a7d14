"""What speculation buys: seconds at equal quality, quality at equal seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.metrics import RESAMPLES, Floats
from evaluation.studies.arms import ArmComparison


@dataclass(frozen=True, slots=True)
class Gain:
    """A speculative arm against regular decoding at one budget (seconds), with 95 % intervals over tasks.

    Time that regular decoding itself did not need does not count as saved.
    """

    budget_s: float
    plain: float  # Pass@First of regular decoding
    speculative: float  # Pass@First of the speculative arm
    gained: float  # the difference
    gained_interval: tuple[float, float]  # for all budgets and pairs of arms together, as verdicts have it
    plain_s: float  # when regular decoding reached its best Pass@First within this budget
    # when the speculative arm reached the same share, None if not within the study's budget
    speculative_s: float | None
    saved_s: float | None  # the difference
    # a limit is None where there is no bound: speculation does not get there in more than 2.5 % of the resamples
    saved_interval: tuple[float | None, float | None]


@dataclass(frozen=True, slots=True)
class SpeculationPair:
    """Two arms that differ only in how they draft: regular decoding (`plain`) and a speculative one.

    `gains` has no entry for budgets at which regular decoding has solved nothing: there is no quality to reach.
    """

    plain: str
    speculative: str
    gains: tuple[Gain, ...]


def measure_speculation(compared: ArmComparison, budgets: Sequence[float]) -> tuple[SpeculationPair, ...]:
    """Each speculative arm against each regular arm of its drafting family, at these budgets."""
    return tuple(
        SpeculationPair(plain.name, arm.name, _compute_gains(compared, regular, place, budgets))
        for place, arm in enumerate(compared.arms)
        for regular, plain in enumerate(compared.arms)
        if arm.speculative and not plain.speculative and arm.drafting_family == plain.drafting_family
    )


def _compute_gains(compared: ArmComparison, plain: int, arm: int, budgets: Sequence[float]) -> tuple[Gain, ...]:
    at, first, _ = compared.outcomes.find_solved_at_changes((plain, arm), compared.end_s)
    shares = first.mean(axis=1)
    times = _find_equal_quality(shares[0], shares[1], at, budgets)
    # Each resample draws the same tasks for both arms.
    draws = np.random.default_rng(0).multinomial(
        compared.n_tasks, np.full(compared.n_tasks, 1 / compared.n_tasks), RESAMPLES
    )
    resampled = zip(*(draws @ of_arm.astype(np.float64) / compared.n_tasks for of_arm in first), strict=True)
    saved = [np.subtract(*_find_equal_quality(of_plain, of_arm, at, budgets)) for of_plain, of_arm in resampled]
    low, high = np.percentile(saved, [2.5, 97.5], axis=0, method="inverted_cdf")  # some may be infinite
    found = []
    for budget, plain_s, arm_s, *limits in zip(budgets, *times, low, high, strict=True):
        if not first[0][:, at <= budget].any():
            continue
        decision = compared.decide("first", arm, plain, budget)
        found.append(
            Gain(
                budget_s=budget,
                plain=compared.compute_share("first", plain, budget),
                speculative=compared.compute_share("first", arm, budget),
                gained=decision.difference,
                gained_interval=(decision.low, decision.high),
                plain_s=float(plain_s),
                speculative_s=_drop_infinite(arm_s),
                saved_s=_drop_infinite(plain_s - arm_s),
                saved_interval=(_drop_infinite(limits[0]), _drop_infinite(limits[1])),
            )
        )
    return tuple(found)


def _find_equal_quality(plain: Floats, arm: Floats, at: Floats, budgets: Sequence[float]) -> tuple[Floats, Floats]:
    """For each budget, when each of two curves `[K]` reaches the best share that `plain` has by then.

    Infinite where it never does. Curves are interpolated between the steps of their running maximum: read off the steps
    themselves, a time is too early by up to one step, which the resamples, with fewer and larger steps, overstate.
    """
    (plain_at, level), (arm_at, arm_level) = _find_steps(plain, at), _find_steps(arm, at)
    wanted = np.interp(budgets, plain_at, level)
    return np.minimum(budgets, plain_at[-1]), np.interp(wanted, arm_level, arm_at, right=math.inf)


def _find_steps(curve: Floats, at: Floats) -> tuple[Floats, Floats]:
    """The budgets at which the running maximum of a curve rises, from the first budget on, and its values there."""
    best = np.maximum.accumulate(curve)
    rises = np.concatenate([[0], 1 + np.flatnonzero(np.diff(best))])
    return at[rises], best[rises]


def _drop_infinite(seconds: float) -> float | None:
    return float(seconds) if math.isfinite(seconds) else None
