"""A real disturbance for tests: busy loops that are the test's own children, and a measurement that sees them alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from app.jobs.work.machine_use import MachineUse
from tests.integration.waiting import wait_for


class BusyLoops:
    """Processes, one for each CPU, that do nothing but burn it, until `stop`."""

    def __init__(self) -> None:
        self.n_cpus = len(os.sched_getaffinity(0))
        self._loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(self.n_cpus)]
        self.processes = [psutil.Process(loop.pid) for loop in self._loops]

    def burnt(self) -> float:
        """CPU seconds that they have used."""
        return sum(sum(process.cpu_times()[:2]) for process in self.processes if process.is_running())

    def stop(self) -> None:
        """Ends them."""
        for loop in self._loops:
            loop.kill()
            loop.wait()

    def measure(self, _ctx: object) -> MachineUse:
        """Stands in for quiet_wait's measurement: half of the machine while these loops burn it, else nothing. What
        else goes on on this machine does not count."""
        if all(loop.poll() is None for loop in self._loops):
            until = self.burnt() + 0.05
            wait_for(lambda: self.burnt() >= until or any(loop.poll() is not None for loop in self._loops))
        burnt = float(all(loop.poll() is None for loop in self._loops))
        return MachineUse(2.0, burnt, 0.0, 1.0)


@contextmanager
def busy_loops() -> Iterator[BusyLoops]:
    """Busy loops that already run."""
    loops = BusyLoops()
    try:
        wait_for(lambda: loops.burnt() > 0.05 * loops.n_cpus)
        yield loops
    finally:
        loops.stop()
