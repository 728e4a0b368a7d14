"""How much of the machine other programs took during a window of a load test: its times suffer from them."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil

WINDOW_S, TELL_EVERY_S = 0.5, 10.0


def watch() -> Callable[[], float | None]:
    """Begins to measure. The result gives the share of this machine that others took since, at most 1.

    Others are all but this process and its children: the services that it measures. None where the system does not
    show it, or where the service's code is missing.
    """
    try:
        from app.jobs.work import machine_use  # noqa: PLC0415
    except ImportError:
        return lambda: None
    before = machine_use.read(_own_s())

    def lost() -> float | None:
        use = machine_use.since(before, _own_s())
        return None if use is None else min((use.others_cpu_s + use.steal_s) / use.capacity_s, 1.0)

    return lost


class QuietMachine:
    """Waits for other programs to leave the machine, `limit_s` seconds in all; `tell` gets a line now and then."""

    def __init__(self, limit_s: float, tell: Callable[[str], None]) -> None:
        self._left_s, self._tell = limit_s, tell

    def wait(self) -> None:
        """Returns once others take no more than a measured task may lose, or the limit is over."""
        try:
            from app.runs.clock import LOST_TO_OTHERS  # noqa: PLC0415
            from app.runs.quiet import describe_wait  # noqa: PLC0415
        except ImportError:
            return
        told: float | None = None
        while self._left_s > 0:
            lost, began = watch(), time.monotonic()
            time.sleep(min(WINDOW_S, self._left_s))
            share = lost()
            if share is None or share <= LOST_TO_OTHERS:
                return
            self._left_s -= time.monotonic() - began
            if told is None or told - self._left_s >= TELL_EVERY_S:
                told = self._left_s
                self._tell(describe_wait(share, self._left_s, stolen=False))


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
