"""The table of BASS (arXiv 2404.15778): regular decoding, single-sequence and batched speculation side by side.

BASS compares at a time budget within which regular decoding does not finish. Here regular decoding sets these budgets
itself, by the time at which it has finished a given share of its samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from evaluation.outcomes import FIGURES
from evaluation.studies.arms import Arm, ArmComparison

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
    points: tuple[PaperPoint, ...]
    ms_per_token_first: float | None
    ms_per_token_last: float | None
    ms_per_token_all: float | None
    # All against All of the regular arm of the same drafting family, over the tasks on which both finished a sample;
    # None for a regular arm and without one
    speed_up: float | None
    tokens_per_s: float | None
    mean_acceptance_length: float | None
    utilization: float | None


def build_paper_table(compared: ArmComparison) -> tuple[PaperRow, ...]:
    """One row for each arm, over the common tasks: target by target, in the order of METHODS, then by n."""
    targets = list(dict.fromkeys(arm.target for arm in compared.arms))

    def order(place: int) -> tuple[int, int, int]:
        arm = compared.arms[place]
        return targets.index(arm.target), METHODS.index(_get_method(arm)), arm.n

    return tuple(_build_row(compared, place) for place in sorted(range(len(compared.arms)), key=order))


def _build_row(compared: ArmComparison, place: int) -> PaperRow:
    arm = compared.arms[place]
    regular = [other for other, one in enumerate(compared.arms) if not one.speculative]
    same_target = [other for other in regular if compared.arms[other].target == arm.target]
    largest = max(same_target, key=lambda other: compared.arms[other].n, default=None)
    plain = next((other for other in regular if compared.arms[other].drafting_family == arm.drafting_family), None)
    own = compared.outcomes.compute_latency(place)
    return PaperRow(
        arm=arm.name,
        method=_get_method(arm),
        points=tuple(
            _build_point(compared, place, share, _find_finish_time(compared, largest, share)) for share in FINISHED
        ),
        ms_per_token_first=own.first,
        ms_per_token_last=own.last,
        ms_per_token_all=own.all,
        speed_up=_compute_speed_up(compared, place, plain) if arm.speculative and plain is not None else None,
        tokens_per_s=arm.tokens_per_s,
        mean_acceptance_length=arm.mean_acceptance_length,
        utilization=arm.utilization,
    )


def _get_method(arm: Arm) -> str:
    if not arm.speculative:
        return METHODS[0]
    return METHODS[1] if arm.n == 1 else METHODS[2]


def _build_point(compared: ArmComparison, place: int, regular_finished: float, budget_s: float | None) -> PaperPoint:
    if budget_s is None:
        return PaperPoint(regular_finished, None, None, None, None)
    finished = int((compared.outcomes.list_finish_times(place) <= budget_s).sum()) / _count_samples(compared, place)
    first, every = (compared.compute_share(figure, place, budget_s) for figure in FIGURES)
    return PaperPoint(regular_finished, budget_s, first, every, finished)


def _find_finish_time(compared: ArmComparison, regular: int | None, share: float) -> float | None:
    """Seconds within which regular decoding finished this share of its samples, None if not within the budget."""
    if regular is None:
        return None
    times = compared.outcomes.list_finish_times(regular)
    needed = math.ceil(share * _count_samples(compared, regular))
    found = float(times[needed - 1]) if needed <= len(times) else math.inf
    return found if found <= compared.end_s else None


def _count_samples(compared: ArmComparison, place: int) -> int:
    return int((compared.outcomes.columns.run == place).sum())


def _compute_speed_up(compared: ArmComparison, place: int, plain: int) -> float | None:
    """How many times faster an arm is, on the tasks of which both have finished a sample."""
    finished = compared.outcomes.find_finished()
    both = finished[place] & finished[plain]
    fast, slow = (compared.outcomes.compute_latency(one, both).all for one in (place, plain))
    return slow / fast if slow and fast else None
