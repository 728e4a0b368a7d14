"""What a run's figures rest on: verdicts that a program could have forged (docs/sandbox.md), and tests that notice few
faults (docs/from-code.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.core.states import PASSED
from app.datasets.service import has_weak_tests, is_unstated
from app.runs.models import RunTask
from app.runs.results import Figures
from app.web.ui.units import format_count, format_percent
from evaluation import metrics
from evaluation.outcomes import compute_pass_all, compute_pass_first
from evaluation.verdicts import Trust


def compute_caveat_figures(
    graded: Sequence[RunTask], outcomes: Sequence[metrics.SampleOutcome], budget_s: float
) -> dict[str, Any]:
    """The fields of Figures about in-guest verdicts, tasks that runs leave out by default, and the judges of tasks made
    from code; `outcomes` are the samples of the graded tasks, task by task.

    The proxy's shares hold even if every in-guest verdict was forged. Those by judge are None unless the project's
    tests judge some task; the others' also if the tests judge every task.
    """
    rows = [s for task in graded for s in task.samples]
    guests = [s for s in rows if s.trust == Trust.IN_GUEST]
    sure = [replace(o, passed=o.passed and s.trust != Trust.IN_GUEST) for o, s in zip(outcomes, rows, strict=True)]
    weak = {task.task.task_id for task in graded if has_weak_tests(task.task)}
    unstated = {task.task.task_id for task in graded if is_unstated(task.task)} - weak
    of_tests = {task.task.task_id for task in graded if (task.task.source or {}).get("judge") == "tests"}
    tests = [outcome for outcome in outcomes if outcome.task_id in of_tests]
    cases = [outcome for outcome in outcomes if outcome.task_id not in of_tests] if tests else []
    return {
        "in_guest_tasks": len({s.run_task_id for s in guests}),
        "in_guest_samples": len(guests),
        "in_guest_passed": sum(s.verdict == PASSED for s in guests),
        **_compute_shares("proxy", sure, budget_s),
        "weak_tasks": len(weak),
        "unstated_tasks": len(unstated),
        **_compute_shares("strong", [o for o in outcomes if o.task_id not in weak | unstated], budget_s),
        "tests_tasks": len(of_tests),
        **_compute_shares("tests", tests, budget_s),
        **_compute_shares("cases", cases, budget_s),
    }


def _compute_shares(which: str, outcomes: Sequence[metrics.SampleOutcome], budget_s: float) -> dict[str, float | None]:
    first, every = (
        compute(outcomes, budget_s) if outcomes else None for compute in (compute_pass_first, compute_pass_all)
    )
    return {f"pass_first_{which}": first, f"pass_all_{which}": every}


def describe_judges(figures: Figures) -> str | None:
    """The shares by judge, for people; None where there are not both."""
    if not figures.tests_tasks or figures.pass_first_cases is None:
        return None
    cases = figures.tasks - figures.tests_tasks
    parts = [
        f"{format_count(n, 'task')} judged by {judge}: Pass@First {format_percent(first, n)}, Pass@All "
        f"{format_percent(every, n)}"
        for n, judge, first, every in (
            (cases, "recorded calls", figures.pass_first_cases, figures.pass_all_cases),
            (figures.tests_tasks, "the project's own tests", figures.pass_first_tests, figures.pass_all_tests),
        )
    ]
    return "; ".join(parts)


def describe_forgeable(results: str, passed: int | None) -> str:
    """How many of these results, which programs could have forged, passed."""
    return f"{results} could be forged; {passed or 'none'} passed"


def describe_forgeable_share(figures: Figures) -> str | None:
    """How many results could have been forged, for people; None where none could, or where they were not counted."""
    if not figures.in_guest_samples:
        return None
    results, tasks = format_count(figures.samples, "result"), format_count(figures.tasks, "task")
    of_all = f"{figures.in_guest_samples} of {results}, in {figures.in_guest_tasks} of {tasks},"
    return describe_forgeable(of_all, figures.in_guest_passed)


def describe_without_left_out(figures: Figures) -> str | None:
    """The shares without tasks that runs leave out by default, for people; None where there are none."""
    weak, unstated = figures.weak_tasks or 0, figures.unstated_tasks or 0
    if not weak + unstated:
        return None
    parts = ["1 task has a weak test" if weak == 1 else f"{weak} tasks have weak tests"] if weak else []
    if unstated:
        parts.append(
            f"{format_count(unstated, 'task')} {'asks' if unstated == 1 else 'ask'} for what the prompt does not tell"
        )
    tests = " and ".join(parts)
    if figures.pass_first_strong is None and weak + unstated < figures.tasks:
        return tests  # the samples have no finish times
    if figures.pass_first_strong is None:
        return f"{tests}, and no other task was graded"
    first, every = (
        format_percent(share, figures.tasks - weak - unstated)
        for share in (figures.pass_first_strong, figures.pass_all_strong)
    )
    return f"{tests}; without them Pass@First is {first} and Pass@All {every}"
