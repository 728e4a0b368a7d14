"""How much of the machine other programs took during a window of a load test: its times suffer from them."""

from __future__ import annotations

from collections.abc import Callable

import psutil

from app.jobs.work import machine_use


def watch() -> Callable[[], float | None]:
    """Begins to measure. The result gives the share of this machine that others took since, at most 1.

    Others are all but this process and its children: the services that it measures. None where the system does not
    show it.
    """
    before = machine_use.read(_own_s())

    def lost() -> float | None:
        use = machine_use.since(before, _own_s())
        return None if use is None else min((use.others_cpu_s + use.steal_s) / use.capacity_s, 1.0)

    return lost


def _own_s() -> float:
    """CPU seconds of this process and its children, also of those that have ended."""
    this, total = psutil.Process(), 0.0
    for process in (this, *this.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.Error:  # it has just ended
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total
