"""Whether the times of a run can be trusted: how much its machine changed, and what others took of it.

The thresholds stand here alone; docs/clock.md explains them.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple, Protocol

from app.runs.models import Calibration, RunTask
from app.runs.results import Figures
from app.web.ui.units import format_count, format_percent

MAX_DRIFT = 0.10
"""How much slower the fixed benchmark step may be in the slowest third of a run than in its fastest."""
MAX_LOST_SHARE = 0.05
"""The share of the machine that others may take while a task is decoded."""
LOST_AT_LEAST_S = 0.05
"""CPU seconds. The system counts in ticks of 0.01 s for each CPU, so that less is not told from nothing."""
BY_PROGRAMS, BY_HYPERVISOR = "other programs used", "the hypervisor withheld"


@dataclass(frozen=True, slots=True)
class RunClock:
    """What is known of a run's times; None is unknown, as for runs from before it was recorded.

    `drift` is by how much the fixed benchmark step took longer in the slowest third of the run than in the
    fastest (`compute_drift`). Of `tasks` with a reading, `disturbed` lost more than MAX_LOST_SHARE of the machine.
    `lost_max` is the largest share that a task lost, `disturbed_lost_max` that a disturbed task lost, and `stolen`
    whether the hypervisor withheld most of what the disturbed tasks lost.
    """

    drift: float | None
    tasks: int
    disturbed: int
    lost_max: float | None
    disturbed_lost_max: float | None
    stolen: bool

    @property
    def is_known(self) -> bool:
        """Whether the run was calibrated more than once, and what others took was read."""
        return self.drift is not None and self.lost_max is not None

    @property
    def marks(self) -> list[str]:
        """Why the times of the run are not to be trusted, in sentences; none where nothing is wrong or known."""
        found = []
        if self.disturbed:
            who = BY_HYPERVISOR if self.stolen else BY_PROGRAMS
            found.append(
                f"In {self.disturbed} of {format_count(self.tasks, 'task')} {who} up to "
                f"{format_percent(self.disturbed_lost_max)} of the "
                f"machine (limit {format_percent(MAX_LOST_SHARE)})."
            )
        if self.drift is not None and self.drift > MAX_DRIFT:
            found.append(
                f"The machine changed its speed by {format_percent(self.drift)} during the run; "
                f"{format_percent(MAX_DRIFT)} is the limit."
            )
        return found


def compute_clock(tasks: Sequence[RunTask], calibrations: Sequence[Calibration]) -> RunClock:
    """The clock of a run with these decoded tasks, and calibrations in the order of time."""
    shares = [share for task in tasks if (share := compute_lost_share(task)) is not None]
    disturbed = [task for task in tasks if is_disturbed(task)]
    return RunClock(
        drift=compute_drift([c.verify_s for c in calibrations]),
        tasks=len(shares),
        disturbed=len(disturbed),
        lost_max=max(shares, default=None),
        disturbed_lost_max=max((compute_lost_share(task) or 0.0 for task in disturbed), default=None),
        stolen=sum(t.steal_s or 0.0 for t in disturbed) > sum(t.others_cpu_s or 0.0 for t in disturbed),
    )


def compute_drift(verifies: Sequence[float]) -> float | None:
    """By how much the slowest third of these times, in the order of the run, exceeds the fastest; None for less than 2.

    A third counts as its median. A single calibration varies by several percent on a machine that nothing disturbs,
    so that the extremes of many would show a drift in every long run.
    """
    if len(verifies) < 2:
        return None
    n_parts = min(3, len(verifies))
    bounds = [round(part * len(verifies) / n_parts) for part in range(n_parts + 1)]
    parts = [median(verifies[start:end]) for start, end in pairwise(bounds)]
    return max(parts) / min(parts) - 1


class CpuTimeReading(Protocol):
    """What others took of the machine while something was measured: a task, or a moment (machine_use.MachineUse)."""

    @property
    def capacity_s(self) -> float | None:
        """CPU seconds that there were."""

    @property
    def others_cpu_s(self) -> float | None:
        """CPU seconds that other programs took."""

    @property
    def steal_s(self) -> float | None:
        """CPU seconds that the hypervisor withheld."""


def compute_lost_share(reading: CpuTimeReading) -> float | None:
    """The share of the machine that others took meanwhile, at most 1; None where it is unknown."""
    if not reading.capacity_s or reading.others_cpu_s is None or reading.steal_s is None:
        return None
    return min((reading.others_cpu_s + reading.steal_s) / reading.capacity_s, 1.0)


def is_disturbed(reading: CpuTimeReading) -> bool:
    """Whether more was lost to others than the limits allow."""
    share = compute_lost_share(reading)
    lost_s = (reading.others_cpu_s or 0.0) + (reading.steal_s or 0.0)
    return share is not None and share > MAX_LOST_SHARE and lost_s > LOST_AT_LEAST_S


class Disturbance(NamedTuple):
    """Why the times of some runs are not to be trusted."""

    machine: str  # such as "a busy machine"
    causes: str  # such as "other programs used up to 38 %"


def find_clock_disturbance(runs: Iterable[Figures]) -> Disturbance | None:
    """What disturbed the clocks of runs with these figures most; None if none was disturbed."""
    marked = [figures for figures in runs if figures.clock_marks]
    lost = [(f.lost_to_others_max or 0.0, f) for f in marked if f.tasks_disturbed]
    causes, machine = [], "an unsteady machine"
    if lost:
        share, worst = max(lost, key=lambda pair: pair[0])
        stolen = any(BY_HYPERVISOR in mark for mark in worst.clock_marks or ())
        machine, who = ("a shared machine", BY_HYPERVISOR) if stolen else ("a busy machine", BY_PROGRAMS)
        causes.append(f"{who} up to {format_percent(share)}")
    if drifts := [f.clock_drift for f in marked if f.clock_drift is not None and f.clock_drift > MAX_DRIFT]:
        causes.append(f"its speed changed by up to {format_percent(max(drifts))}")
    return Disturbance(machine, ", ".join(causes)) if causes else None


def describe_disturbance(runs: Iterable[Figures]) -> str:
    """How a sentence about runs with these figures begins if their times are not to be trusted; else "".

    Such as "Measured on a busy machine (other programs used up to 38 %): ".
    """
    found = find_clock_disturbance(runs)
    return f"Measured on {found.machine} ({found.causes}): " if found else ""


TaskTiming = tuple[dt.datetime, float | None, float | None]
"""When a task was queued, how long it waited, and how long it was decoded (seconds; None before it was)."""


def sum_decoding_s(timings: Iterable[TaskTiming], *, together: bool) -> float:
    """Seconds of decoding: the sum over tasks, or where they are decoded `together` the time that they cover.

    What lies between two batches, such as the pause before a run was resumed, is not counted.
    """
    # In seconds since 1970: a loaded file may hold waits that no date can be moved by.
    done = [(queued.timestamp() + (wait or 0.0), wall) for queued, wait, wall in timings if wall is not None]
    if not together:
        return math.fsum(wall for _, wall in done)
    busy, until = 0.0, -math.inf
    for began, wall in sorted(done):
        ended = began + wall
        if ended > until:
            busy += ended - max(began, until)
            until = ended
    return busy
