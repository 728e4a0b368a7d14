"""Caveats on the figures of an overlay, and the difference that the machine's speed alone could explain.

Two runs that were not measured in turn may differ by their machines alone. A sample counts if it finished within the
budget, so a run on a machine that was busy looks worse than it is. The test is repeated as if the winner had been
measured on the loser's machine. If the difference then could be chance, nobody is called better.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from app.comparison.loading import Overlay
from app.runs.caveats import describe_forgeable
from app.runs.clock import RunClock, compute_clock
from app.runs.models import Run, RunTask
from app.web.ui.units import format_count, format_decimal, format_points
from evaluation.decisions import PairDecision
from evaluation.outcomes import Figure

NOT_IN_TURN = (
    "The runs were not measured in turn, so the machine alone may have made some of them faster. An overlay of two of "
    "them tests whether that could explain their difference."
)
_DEVICE_KEYS = ("device", "device_name", "dtype", "cpu")


def is_same_device(runs: Sequence[Run]) -> bool:
    """Whether timings of the runs can be compared: same device, dtype and CPU."""
    return all(run.provenance.get(key) == runs[0].provenance.get(key) for run in runs for key in _DEVICE_KEYS)


def describe_caveats(overlay: Overlay, not_in_turn: str = NOT_IN_TURN) -> list[str]:
    """Caveats on the figures of the overlay, each a sentence or two: also what disturbed the clock of each run, and how
    many of its verdicts a program could have forged.

    `not_in_turn` is the caveat for runs that were not measured in turn.
    """
    said = [f"Left out: {error}." for error in overlay.left_out]
    named = list(zip(overlay.letters, overlay.runs, strict=True))
    common = len(overlay.task_ids)
    more = [
        f"{letter} {graded}" for letter, graded in zip(overlay.letters, overlay.graded, strict=True) if graded > common
    ]
    if more:
        said.append(
            f"The runs graded different tasks. All figures are over the {common} that all of them have graded; "
            f"more were graded by: {', '.join(more)}."
        )
    if not is_same_device(overlay.runs):
        said.append("The runs used different devices or dtypes: only shares can be compared, not times.")
    elif not overlay.in_turn:
        said.append(not_in_turn)
    if together := [letter for letter, run in named if run.throughput]:
        said.append(
            f"Decoded for throughput: {', '.join(together)}. Tasks shared a batch, so each of their samples finished "
            "later."
        )
    if len({run.n for run in overlay.runs}) > 1:
        first, *others = (f"{letter} has {run.n}" for letter, run in named)
        counts = ", ".join((f"{first} samples per task", *others))
        said.append(f"{counts}: more samples raise Pass@All by chance alone.")
    for letter, run in named:
        said += [f"{letter}: {mark}" for mark in run.measured.clock_marks or ()]
        if guests := run.measured.in_guest_samples:
            said.append(
                f"{letter}: {describe_forgeable(format_count(guests, 'result'), run.measured.in_guest_passed)}."
            )
    return said


MIN_MACHINE_SHARE = 0.01  # of the machine, so that the factor stays finite
REMEDY = "To know, let both take turns in a study (bassline study run)."
WORKLOAD_KEYS = ("target_sha256", "attention", "threads", "torch", "transformers")
"""What the fixed benchmark step depends on beside the device: runs that share it can be compared by its time."""


@dataclass(frozen=True, slots=True)
class MeasurementConditions:
    """How two runs were measured."""

    in_turn: bool  # as arms of one study
    time_bound: bool  # whether the speed of the machine matters to their shares
    clocks: Sequence[RunClock]  # over the tasks that both have graded
    # upper limit of the factor by which each run would have been slower on the other's machine; None: unknown
    slowdown_limits: Sequence[float | None]

    @property
    def machine_factor(self) -> float | None:
        """By how much times could differ because of the machine alone: 1 if measured in turn, None if unknown."""
        if self.in_turn:
            return 1.0
        known = [factor for factor in self.slowdown_limits if factor is not None]
        return max(known) if len(known) == len(self.slowdown_limits) else None

    @property
    def caveat(self) -> str:
        """What it means that the runs were not measured in turn."""
        if self.machine_factor is None:
            return (
                "The runs were not measured in turn, and how busy the machine was is not known of both: times may "
                "differ because of the machine alone."
            )
        return (
            "The runs were not measured in turn: the machine alone could explain times that differ by a factor of up "
            f"to {format_decimal(self.machine_factor)}."
        )


def compute_conditions(
    overlay: Overlay, tasks: Sequence[Collection[RunTask]], budget_s: float
) -> MeasurementConditions:
    """How the two runs of the overlay were measured, given all tasks of each.

    The result is time-bound if a sample of the common tasks was cut off by the deadline or finished after `budget_s`.
    """
    common = set(overlay.task_ids)
    a, b = (
        _ClockedRun(run, compute_clock([task for task in of_run if task.task.task_id in common], run.calibrations))
        for run, of_run in zip(overlay.runs, tasks, strict=True)
    )
    return MeasurementConditions(
        in_turn=overlay.in_turn,
        time_bound=any(
            row.finish_reason == "deadline" or (row.finished_s or 0.0) > budget_s for row in overlay.samples
        ),
        clocks=(a.clock, b.clock),
        slowdown_limits=(_compute_slowdown_limit(a, b), _compute_slowdown_limit(b, a)),
    )


def explain_withheld_verdict(
    decision: PairDecision, figure: Figure, overlay: Overlay, conditions: MeasurementConditions
) -> str | None:
    """Why nobody may be called better although the verdict says so; None if the difference stands or is none.

    `decision` is about the second run of the overlay against the first in this figure.
    """
    if decision.verdict != "better" or conditions.in_turn or not conditions.time_bound:
        return None
    winner, loser = (1, 0) if decision.is_better else (0, 1)
    factor = conditions.slowdown_limits[winner]
    if factor is None:
        names = (overlay.runs[place].name for place in (winner, loser) if not conditions.clocks[place].is_known)
        return (
            f"the result depends on time, the runs were not measured in turn, and how busy the machine was is not "
            f"known of {' and of '.join(names)}. {REMEDY}"
        )
    again = overlay.paired_runs.build_band(figure, winner, loser, (factor, 1.0)).decide(
        decision.budget_s, decision.margin
    )
    if again.is_better:
        return None
    n = len(overlay.task_ids)
    return (
        f"the runs were not measured in turn, and the speed of the machine could explain it: with the times of "
        f"{overlay.runs[winner].name} multiplied by {factor:.2f}, its lead is "
        f"{format_points(again.difference, n)} points "
        f"({format_points(again.low, n)} to {format_points(again.high, n)}). {REMEDY}"
    )


class _ClockedRun(NamedTuple):
    run: Run
    clock: RunClock  # over the tasks that both runs have graded


def _compute_slowdown_limit(this: _ClockedRun, other: _ClockedRun) -> float | None:
    """The factor by which a run's times might have been longer on the other's machine as it was then; at least 1.

    It has three parts: the ratio of the calibrations where the device is the same (of the fixed benchmark step if the
    work is the same too, else of the memory read), the drift inside each run, and the largest share of the machine that
    a task of the other lost. None if a clock is not known. The parts multiply: it is an upper limit, not an estimate.
    """
    if this.clock.drift is None or other.clock.drift is None or other.clock.lost_max is None:
        return None
    machine_ratio = _compute_speed_ratio(this.run, other.run) if is_same_device((this.run, other.run)) else 1.0
    drift = (1 + this.clock.drift) * (1 + other.clock.drift)
    left_share = max(1 - other.clock.lost_max, MIN_MACHINE_SHARE)
    return max(machine_ratio * drift / left_share, 1.0)


def _compute_speed_ratio(run: Run, other: Run) -> float:
    """How many times slower the other's machine was than the run's, by their median calibrations."""
    mine, theirs = run.calibrations, other.calibrations
    if all(run.provenance.get(key) == other.provenance.get(key) for key in WORKLOAD_KEYS):
        return median(c.verify_s for c in theirs) / median(c.verify_s for c in mine)
    return median(c.read_bytes_per_s for c in mine) / median(c.read_bytes_per_s for c in theirs)
