"""What the speed of the machine could explain of the difference between two runs that were not measured in turn.

A sample counts if it finished within the budget, so a run on a machine that was busy looks worse than it is. The test
is repeated as if the winner had been measured on the loser's machine. If the difference then could be chance, nobody is
called better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from app.runs.clock import Clock, clock
from app.runs.figures import in_budget_s
from app.runs.models import Calibration, Run, RunTask
from evaluation import inference
from evaluation.metrics import SampleOutcome

LEAST_LEFT = 0.01  # of the machine, so that the factor stays finite
REMEDY = "To know, let both take turns in a study (bassline study run)."
SAME_WORK = ("target_sha256", "attention", "threads", "torch", "transformers")
"""What the fixed benchmark step depends on beside the device: runs that share it can be compared by its time."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two runs, and what is known of its clock over the tasks that both have."""

    run: Run
    tasks: Sequence[RunTask]
    outcomes: Sequence[SampleOutcome]
    clock: Clock
    calibrations: Sequence[Calibration]


@dataclass(frozen=True, slots=True)
class Circumstances:
    """How two runs were measured, and whether the speed of the machine matters to their shares (`is_time_bound`)."""

    in_turn: bool
    time_bound: bool
    same_device: bool


def side(run: Run, tasks: Sequence[RunTask], outcomes: Sequence[SampleOutcome], common: set[str]) -> Side:
    """The run over its tasks in `common`, given all its tasks and their graded samples."""
    mine = [task for task in tasks if task.task.task_id in common]
    return Side(run, mine, outcomes, clock(mine, run.calibrations), run.calibrations)


def is_time_bound(sides: Sequence[Side], budget_s: float) -> bool:
    """Whether a sample of the common tasks was cut off by the deadline or finished after `budget_s`, in either run.

    If none was, the shares at this budget do not depend on the speed of the machine.
    """
    return any(
        sample.finish_reason == "deadline" or (in_budget_s(sample) or 0.0) > budget_s
        for each in sides
        for task in each.tasks
        for sample in task.samples
    )


def withheld(found: inference.Comparison, other: Side, baseline: Side, circumstances: Circumstances) -> str | None:
    """Why nobody may be called better although the test says so; None if the difference stands or is none.

    `found` compares `other` with `baseline`.
    """
    if not found.significant or circumstances.in_turn or not circumstances.time_bound:
        return None
    winner, loser = (other, baseline) if found.delta > 0 else (baseline, other)
    factor = _stretch(winner, loser, circumstances)
    if factor is None:
        return _unknown(winner, loser)
    again = inference.compare(
        winner.outcomes, loser.outcomes, found.budget_s, found.selector, stretch=factor, alpha=found.alpha
    )
    if again.delta > 0 and again.significant:
        return None
    return (
        f"the runs were not measured in turn, and the speed of the machine could explain it: with the times of "
        f"{winner.run.name} multiplied by {factor:.2f}, p is {again.p:.3f}. {REMEDY}"
    )


def machine_factor(one: Side, other: Side, circumstances: Circumstances) -> float | None:
    """By how much times could differ because of the machine alone: 1 if measured in turn, None where it is unknown."""
    if circumstances.in_turn:
        return 1.0
    factors = _stretch(one, other, circumstances), _stretch(other, one, circumstances)
    return None if None in factors else max(factor for factor in factors if factor is not None)


def _stretch(winner: Side, loser: Side, circumstances: Circumstances) -> float | None:
    """The factor by which the winner's times might have been longer on the loser's machine as it was then; at least 1.

    It has three parts: the ratio of the calibrations where the device is the same (of the fixed benchmark step if the
    work is the same too, else of the memory read), the drift inside each run, and the largest share of the machine that
    a task of the loser lost. None if a clock is not known. The parts multiply: it is an upper limit, not an estimate.
    """
    if winner.clock.drift is None or loser.clock.drift is None or loser.clock.lost_max is None:
        return None
    speed = _speed_ratio(winner, loser) if circumstances.same_device else 1.0
    drift = (1 + winner.clock.drift) * (1 + loser.clock.drift)
    left = max(1 - loser.clock.lost_max, LEAST_LEFT)
    return max(speed * drift / left, 1.0)


def _speed_ratio(winner: Side, loser: Side) -> float:
    """How many times slower the loser's machine was than the winner's, by their median calibrations."""
    mine, theirs = winner.calibrations, loser.calibrations
    if all(winner.run.provenance.get(key) == loser.run.provenance.get(key) for key in SAME_WORK):
        return median(c.verify_s for c in theirs) / median(c.verify_s for c in mine)
    return median(c.read_bytes_per_s for c in mine) / median(c.read_bytes_per_s for c in theirs)


def _unknown(*sides: Side) -> str:
    names = " and of ".join(each.run.name for each in sides if not each.clock.is_known)
    return (
        f"the result depends on time, the runs were not measured in turn, and how busy the machine was is not known of "
        f"{names}. {REMEDY}"
    )
