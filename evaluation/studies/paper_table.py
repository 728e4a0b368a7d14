"""The table of BASS (arXiv 2404.15778): regular decoding, single-sequence and batched speculation side by side.

BASS compares at a time budget within which regular decoding does not finish. Here regular decoding sets these budgets
itself, by the time at which it has finished a given share of its samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evaluation.metrics import SampleOutcome, latency, pass_all, pass_first
from evaluation.studies.arms import Arm, Scored

FINISHED = (0.5, 0.9)
"""Shares of finished samples of regular decoding that set the budgets of the table."""

METHODS = ("regular decoding", "single-sequence speculation", "batched speculation")


@dataclass(frozen=True, slots=True)
class PaperPoint:
    """An arm at the budget (seconds) within which regular decoding has finished `regular_finished` of its samples.

    The others are shares: of tasks, and for `finished` of this arm's own samples. All are None if regular decoding
    never gets there within the study's budget, or if no arm with this target decodes regularly.
    """

    regular_finished: float
    budget_s: float | None
    pass_first: float | None
    pass_all: float | None
    finished: float | None


@dataclass(frozen=True, slots=True)
class PaperRow:
    """One arm. Milliseconds per token are the First, Last and All of BASS, over the common tasks."""

    arm: str
    method: str  # one of METHODS
    target: str
    drafter: str
    n: int
    regular: str | None  # the arm that sets the budgets: the regular arm with the same target and the largest n
    points: tuple[PaperPoint, ...]
    ms_per_token_first: float | None
    ms_per_token_last: float | None
    ms_per_token_all: float | None
    # All against All of the regular arm of the same pair, over the tasks on which both finished a sample; None for a
    # regular arm and without one
    speed_up: float | None
    tokens_per_s: float | None
    mean_acceptance_length: float | None
    utilization: float | None


def paper_table(scored: Scored) -> tuple[PaperRow, ...]:
    """One row for each arm, over the common tasks: target by target, in the order of METHODS, then by n.

    The study's budget is the last of `scored`.
    """
    targets = list(dict.fromkeys(arm.target for arm in scored.arms))
    in_order = sorted(scored.arms, key=lambda arm: (targets.index(arm.target), METHODS.index(_method(arm)), arm.n))
    return tuple(_row(scored, arm) for arm in in_order)


def _row(scored: Scored, arm: Arm) -> PaperRow:
    regular = [other for other in scored.arms if not other.speculative]
    largest = max((other for other in regular if other.target == arm.target), key=lambda other: other.n, default=None)
    plain = next((other for other in regular if other.pair == arm.pair), None)
    own = latency(arm.outcomes)
    return PaperRow(
        arm=arm.name,
        method=_method(arm),
        target=arm.target,
        drafter=arm.drafter,
        n=arm.n,
        regular=largest.name if largest else None,
        points=tuple(_point(arm, share, _finished_at(largest, share, scored.budgets[-1])) for share in FINISHED),
        ms_per_token_first=own.first,
        ms_per_token_last=own.last,
        ms_per_token_all=own.all,
        speed_up=_speed_up(arm, plain) if arm.speculative and plain else None,
        tokens_per_s=arm.timing.tokens_per_s,
        mean_acceptance_length=arm.timing.mean_acceptance_length,
        utilization=arm.timing.utilization,
    )


def _method(arm: Arm) -> str:
    if not arm.speculative:
        return METHODS[0]
    return METHODS[1] if arm.n == 1 else METHODS[2]


def _point(arm: Arm, regular_finished: float, budget_s: float | None) -> PaperPoint:
    if budget_s is None:
        return PaperPoint(regular_finished, None, None, None, None)
    finished = sum(time <= budget_s for time in _finish_times(arm.outcomes)) / len(arm.outcomes)
    first, every = pass_first(arm.outcomes, budget_s), pass_all(arm.outcomes, budget_s)
    return PaperPoint(regular_finished, budget_s, first, every, finished)


def _finished_at(regular: Arm | None, share: float, budget_s: float) -> float | None:
    """Seconds within which regular decoding finished this share of its samples, None if not within `budget_s`."""
    if regular is None:
        return None
    times = [time for time in _finish_times(regular.outcomes) if time <= budget_s]
    needed = math.ceil(share * len(regular.outcomes))
    return times[needed - 1] if needed <= len(times) else None


def _speed_up(arm: Arm, plain: Arm) -> float | None:
    tasks = [{o.task_id for o in each.outcomes if o.finished_s is not None} for each in (arm, plain)]
    both = tasks[0] & tasks[1]
    if not both:
        return None
    fast, slow = (latency(o for o in each.outcomes if o.task_id in both).all for each in (arm, plain))
    return slow / fast if slow and fast else None


def _finish_times(outcomes: Sequence[SampleOutcome]) -> list[float]:
    """Ascending, of the samples that ended by themselves."""
    return sorted(o.finished_s for o in outcomes if o.finished_s is not None)
