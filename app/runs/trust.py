"""How much of a run's figures rests on verdicts that a program could have forged (docs/sandbox.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.runs.models import RunTask
from app.states import PASSED
from evaluation import metrics
from evaluation.verdicts import Trust

IN_GUEST = Trust.IN_GUEST
KEYS = ("in_guest_tasks", "in_guest_samples", "in_guest_passed", "pass_first_proxy", "pass_all_proxy")


def figures(
    graded: Sequence[RunTask], outcomes: Sequence[metrics.SampleOutcome], budget_s: float, selector: metrics.Selector
) -> dict[str, Any]:
    """The figures of KEYS over graded tasks; `outcomes` are their samples, task by task.

    Counted are the verdicts given in-guest: their tasks, their samples, and the samples among them that passed.
    `pass_first_proxy` and `pass_all_proxy` are the shares at `budget_s` if none of those had passed: what holds even
    if every such verdict was forged. They are None without outcomes.
    """
    rows = [s for task in graded for s in task.samples]
    guests = [s for s in rows if s.trust == IN_GUEST]
    sure = [replace(o, passed=o.passed and s.trust != IN_GUEST) for o, s in zip(outcomes, rows, strict=True)]
    return {
        "in_guest_tasks": len({s.run_task_id for s in guests}),
        "in_guest_samples": len(guests),
        "in_guest_passed": sum(s.verdict == PASSED for s in guests),
        "pass_first_proxy": metrics.pass_first(sure, budget_s, selector) if sure else None,
        "pass_all_proxy": metrics.pass_all(sure, budget_s) if sure else None,
    }


def sentence(figures: dict[str, Any]) -> str | None:
    """How many verdicts could have been forged, for people; None where none could, or where nobody counted them."""
    if not figures.get("in_guest_samples"):
        return None
    tasks, samples, passed = (figures[key] for key in KEYS[:3])
    return (
        f"{samples} of {figures['samples']} samples, in {tasks} of {figures['tasks']} tasks, were judged in-guest, "
        "where a program can forge its verdict; "
        f"{passed} of them passed"
    )
