"""Waiting for a quiet machine before a task is measured: how long at most, how long so far, and why it waits now.

The wait itself is the worker's (app/jobs/work/quiet_wait.py). A run keeps a `QuietWait` as JSON in its column `quiet`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from app.runs.clock import MAX_LOST_SHARE
from app.runs.models import Run
from app.web.ui.units import format_percent, format_seconds

QUIET_LIMIT_S = 600.0
"""The limit for a run or a study that is to wait and names none."""


@dataclass(frozen=True, slots=True)
class QuietWait:
    """The wait of one run. Until it has waited `limit_s` seconds in all, it waits before each task.

    `lost` is the share of the machine that others took when it was measured last; None while the run does not wait.
    `stolen` says whether the hypervisor withheld most of that.
    """

    limit_s: float
    waited_s: float = 0.0
    lost: float | None = None
    stolen: bool = False

    def to_json(self) -> dict[str, Any]:
        """The content of the column."""
        return asdict(self)


def build_quiet_wait(limit_s: float | None) -> dict[str, Any] | None:
    """The column of a new or resumed run that waits at most so long; None for one that does not wait."""
    return None if limit_s is None else QuietWait(limit_s).to_json()


def parse_quiet_wait(column: Mapping[str, Any] | None) -> QuietWait | None:
    """The wait of a run from its column."""
    return None if column is None else QuietWait(**column)


def find_quiet_limit(runs: Iterable[Run]) -> float | None:
    """How long runs that share their wait do so at most; None where none of them waits."""
    return next((wait.limit_s for run in runs if (wait := parse_quiet_wait(run.quiet)) is not None), None)


def describe_quiet_wait(runs: Iterable[Run]) -> str | None:
    """Why the run, or the study with these runs, waits now and for how long at most; None where it does not wait."""
    waits = [wait for run in runs if (wait := parse_quiet_wait(run.quiet)) is not None]
    now = next((wait for wait in waits if wait.lost is not None), None)
    if now is None or now.lost is None:
        return None
    left_s = now.limit_s - sum(wait.waited_s for wait in waits)
    return describe_wait(now.lost, left_s, stolen=now.stolen)


def describe_wait(lost: float, left_s: float, *, stolen: bool) -> str:
    """Why something waits for a quiet machine, and for how long at most."""
    who = "the hypervisor withholds" if stolen else "other programs use"
    return (
        f"Waiting for a quiet machine: {who} {format_percent(lost)} (limit {format_percent(MAX_LOST_SHARE)}); "
        f"{format_seconds(round(max(left_s, 0.0)))} left"
    )
