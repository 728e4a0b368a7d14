"""How much of a run's figures rests on verdicts that a program could have forged (docs/sandbox.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.runs.models import RunTask
from app.runs.results import Figures
from app.states import PASSED
from app.ui.units import counted
from evaluation import metrics
from evaluation.verdicts import Trust

IN_GUEST = Trust.IN_GUEST


@dataclass(frozen=True, slots=True)
class InGuest:
    """The verdicts given in-guest: their tasks, their samples, and the samples among them that passed.

    `pass_first_proxy` and `pass_all_proxy` are the shares if none of those had passed: the shares that hold even if
    every such verdict was forged. They are None without graded samples.
    """

    tasks: int
    samples: int
    passed: int
    pass_first_proxy: float | None
    pass_all_proxy: float | None


def in_guest(
    graded: Sequence[RunTask], outcomes: Sequence[metrics.SampleOutcome], budget_s: float, selector: metrics.Selector
) -> InGuest:
    """The in-guest verdicts of graded tasks, shares at `budget_s`; `outcomes` are their samples, task by task."""
    rows = [s for task in graded for s in task.samples]
    guests = [s for s in rows if s.trust == IN_GUEST]
    sure = [replace(o, passed=o.passed and s.trust != IN_GUEST) for o, s in zip(outcomes, rows, strict=True)]
    return InGuest(
        tasks=len({s.run_task_id for s in guests}),
        samples=len(guests),
        passed=sum(s.verdict == PASSED for s in guests),
        pass_first_proxy=metrics.pass_first(sure, budget_s, selector) if sure else None,
        pass_all_proxy=metrics.pass_all(sure, budget_s) if sure else None,
    )


def sentence(figures: Figures) -> str | None:
    """How many verdicts could have been forged, for people; None where none could, or where they were not counted."""
    if not figures.in_guest_samples:
        return None
    samples, tasks = counted(figures.samples, "sample"), counted(figures.tasks, "task")
    return (
        f"{figures.in_guest_samples} of {samples}, in {figures.in_guest_tasks} of {tasks}, were judged in-guest, where "
        f"a program can forge its verdict; {figures.in_guest_passed} of them passed"
    )
