"""The clock of a run on its page: how fast the machine was, and what others took of it, over the time of the run."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from app.runs.clock import DRIFT, LOST_TO_OTHERS, lost_share
from app.runs.models import Calibration, RunTask
from app.ui.charts.levels import Level, levels
from app.ui.charts.parts import Chart
from app.ui.units import milliseconds


def charts(tasks: Sequence[RunTask], calibrations: Sequence[Calibration]) -> list[tuple[str, str, Chart]]:
    """(heading, note, chart) of what is known: the calibrations, then what tasks lost; [] for a run from before."""
    lost = [
        (task.started_at, share, task.task.task_id)
        for task in tasks
        if task.started_at is not None and (share := lost_share(task)) is not None
    ]
    start = min([*(at for at, _, _ in lost), *(c.at for c in calibrations)], default=None)
    if start is None:
        return []
    found = []
    if calibrations:
        note = "A fixed benchmark step, timed before, during and after the run, against the fastest one."
        found.append(("Speed of the machine", note, _speed(calibrations, start)))
    if lost:
        note = "CPU time of other processes, and time withheld by the hypervisor, while the task was decoded."
        points = [Level((at - start).total_seconds(), share, task_id) for at, share, task_id in sorted(lost)]
        title, heads = "Share of the machine lost to others", ("Task", "Lost to others")
        found.append(("Lost to others, by task", note, levels(points, title, heads, LOST_TO_OTHERS)))
    return found


def _speed(calibrations: Sequence[Calibration], start: dt.datetime) -> Chart:
    fastest = min(c.verify_s for c in calibrations)
    points = [
        Level(
            (c.at - start).total_seconds(),
            c.verify_s / fastest - 1,
            f"{milliseconds(1000 * c.verify_s)} ms, {c.read_bytes_per_s / 1e9:.1f} GB/s",
        )
        for c in calibrations
    ]
    return levels(points, "Slower than at its fastest", ("Verify and memory read", "Slower by"), DRIFT)
