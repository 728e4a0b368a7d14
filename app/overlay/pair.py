"""What only two runs have: the difference at one budget, what the machine could explain of it, and what was changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from app.errors import BadInputError
from app.overlay import caution
from app.overlay.notes import same_device
from app.runs import figures
from app.runs.configuration import differences
from app.runs.models import Run, RunTask
from app.runs.repository import tasks_without_texts
from app.runs.service import check_comparable
from app.studies.repository import in_one_study
from evaluation import inference
from evaluation.metrics import SampleOutcome


@dataclass(frozen=True, slots=True)
class RunComparison:
    """`other` against `baseline` at `budget_s` seconds, over the tasks that both have graded.

    `first` and `every` compare Pass@First and Pass@All: delta is other - baseline, wins are tasks that only `other`
    solves.
    """

    baseline: Run
    other: Run
    budget_s: float
    first: inference.Comparison
    every: inference.Comparison
    speed: float | None
    """Tokens per second of `other` over `baseline` on common tasks; None where devices differ or it is not known."""
    in_turn: bool
    """Whether the runs were measured in turn, as arms of one study."""
    time_bound: bool
    """Whether the speed of the machine matters at this budget."""
    withheld_first: str | None
    """Why neither run may be called better in Pass@First although p is below the level."""
    withheld_every: str | None
    machine_factor: float | None
    """By how much times could differ because of the machine alone; None where that is not known."""
    changed: dict[str, tuple[Any, Any]]
    """The options that differ, by name: (the baseline's value, the other's)."""
    tasks: tuple[Sequence[RunTask], Sequence[RunTask]]
    """All tasks of `baseline` and of `other`."""
    outcomes: tuple[Sequence[SampleOutcome], Sequence[SampleOutcome]]
    """The graded samples of `baseline` and of `other`."""


def compare_runs(session: Session, baseline: Run, other: Run, budget_s: float | None = None) -> RunComparison:
    """`other` against `baseline`, both from the database; raises as compare_tasks does."""
    ours, theirs = tasks_without_texts(session, other.id), tasks_without_texts(session, baseline.id)
    in_turn = in_one_study(session, (baseline.id, other.id))
    return compare_tasks(baseline, theirs, other, ours, budget_s, in_turn=in_turn)


def compare_tasks(
    baseline: Run,
    theirs: Sequence[RunTask],
    other: Run,
    ours: Sequence[RunTask],
    budget_s: float | None = None,
    *,
    in_turn: bool = False,
    alpha: float = inference.ALPHA,
) -> RunComparison:
    """`other` with its tasks `ours` against `baseline` with `theirs`, wherever they come from.

    `in_turn` if they are arms of one study. `alpha` is the level of the test.
    Raises BadInputError for different datasets, no graded task in common, or a budget longer than a run's own.
    """
    check_comparable(baseline, other)
    longest = min(baseline.budget_s, other.budget_s)
    if budget_s is not None and budget_s > longest:
        raise BadInputError(
            f"budget is {budget_s:g}: one of the runs stopped at {longest:g} seconds, give at most that", "budget"
        )
    budget = budget_s or longest
    a, b = figures.graded_outcomes(ours), figures.graded_outcomes(theirs)
    common = {o.task_id for o in a} & {o.task_id for o in b}
    if not common:
        raise BadInputError("the two runs have no graded task in common: finish one of them first", "run")
    first = inference.compare(a, b, budget, alpha=alpha)
    every = inference.compare(a, b, budget, None, alpha=alpha)
    sides = caution.side(other, ours, a, common), caution.side(baseline, theirs, b, common)
    circumstances = caution.Circumstances(
        in_turn=in_turn,
        time_bound=caution.is_time_bound(sides, budget),
        same_device=same_device((baseline, other)),
    )
    return RunComparison(
        baseline,
        other,
        budget,
        first,
        every,
        figures.speedup(other, ours, baseline, theirs) if circumstances.same_device else None,
        circumstances.in_turn,
        circumstances.time_bound,
        caution.withheld(first, *sides, circumstances),
        caution.withheld(every, *sides, circumstances),
        caution.machine_factor(*sides, circumstances),
        differences(baseline, other),
        (theirs, ours),
        (b, a),
    )
