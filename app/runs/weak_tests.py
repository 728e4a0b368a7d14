"""How much of a run's figures rests on tests that notice few faults (docs/from-code.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.runs.models import RunTask
from app.runs.results import Figures
from app.ui.units import percent
from evaluation import metrics


@dataclass(frozen=True, slots=True)
class Weak:
    """The graded tasks whose test is weak, and the shares over the others, None where there is no other."""

    tasks: int
    pass_first_strong: float | None
    pass_all_strong: float | None


def weak_tests(
    graded: Sequence[RunTask], outcomes: Sequence[metrics.SampleOutcome], budget_s: float, selector: metrics.Selector
) -> Weak:
    """The weak tests of graded tasks, shares at `budget_s`; `outcomes` are the samples of these tasks."""
    weak = {task.task.task_id for task in graded if (task.task.source or {}).get("weak") is True}
    strong = [outcome for outcome in outcomes if outcome.task_id not in weak]
    return Weak(
        tasks=len(weak),
        pass_first_strong=metrics.pass_first(strong, budget_s, selector) if strong else None,
        pass_all_strong=metrics.pass_all(strong, budget_s) if strong else None,
    )


def sentence(figures: Figures) -> str | None:
    """The shares without weak tests, for people; None where no test is weak."""
    if not figures.weak_tasks:
        return None
    tests = "1 task has a weak test" if figures.weak_tasks == 1 else f"{figures.weak_tasks} tasks have weak tests"
    if figures.pass_first_strong is None:
        return f"{tests}, and no other task was graded"
    first, every = percent(figures.pass_first_strong), percent(figures.pass_all_strong)
    return f"{tests}; without them Pass@First is {first} and Pass@All {every}"
