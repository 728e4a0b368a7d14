"""How much of the machine others took while a task was decoded (docs/clock.md).

Others are all processes but this one, also those that judge programs, and with `steal` the machines that share this
one's processors.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import psutil

BUSY = ("user", "nice", "system", "irq", "softirq")  # not every system counts all of them


@dataclass(frozen=True, slots=True)
class CpuCounters:
    """The counters at one moment, in seconds: of the clock, and of CPU time over `n_cpus` CPUs and by this process."""

    at_s: float
    n_cpus: int
    busy_s: float
    steal_s: float
    own_s: float


@dataclass(frozen=True, slots=True)
class MachineUse:
    """CPU seconds that others took and the hypervisor withheld, of `capacity_s` (wall clock times CPUs).

    `load_average` is the system's, over the last minute.
    """

    capacity_s: float
    others_cpu_s: float
    steal_s: float
    load_average: float


def read_cpu_counters(own_s: float | None = None) -> CpuCounters | None:
    """The counters now, over the CPUs that this process may use; None where the system does not show them.

    `own_s` is the CPU time so far that does not count as others'; None: the time of this process.
    """
    try:
        cpus = psutil.cpu_times(percpu=True)
    except (OSError, RuntimeError, ValueError, psutil.Error):
        return None
    if hasattr(os, "sched_getaffinity"):
        allowed = os.sched_getaffinity(0)
        cpus = [times for number, times in enumerate(cpus) if number in allowed] or cpus
    busy = sum(getattr(times, name, 0.0) for times in cpus for name in BUSY)
    steal = sum(getattr(times, "steal", 0.0) for times in cpus)
    return CpuCounters(time.monotonic(), len(cpus), busy, steal, time.process_time() if own_s is None else own_s)


def compute_use_since(before: CpuCounters | None, own_s: float | None = None) -> MachineUse | None:
    """What others took since a reading; None without one, or where the counters cannot be compared."""
    now = read_cpu_counters(own_s) if before is not None else None
    if before is None or now is None or now.n_cpus != before.n_cpus:
        return None
    # The system counts in ticks and a process in nanoseconds, so the difference can fall just below 0.
    others = max(now.busy_s - before.busy_s - (now.own_s - before.own_s), 0.0)
    return MachineUse(
        capacity_s=(now.at_s - before.at_s) * now.n_cpus,
        others_cpu_s=others,
        steal_s=max(now.steal_s - before.steal_s, 0.0),
        load_average=os.getloadavg()[0],
    )
