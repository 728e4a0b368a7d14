"""Compares two runs: the difference at one budget, how much the machine could explain, what was changed, and
whether one is worse: the one place that decides it, for `runs compare` and the files it writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sqlalchemy.orm import Session

from app.comparison import caution
from app.comparison.caution import is_same_device
from app.comparison.documents import ComparisonDocument, Conclusion, PairedDifference
from app.comparison.loading import Overlay, build_overlay
from app.runs.configuration import find_differences
from app.runs.figures import compute_speedup
from app.runs.models import Run, RunTask
from app.runs.outcomes import SampleRow, read_samples, read_tasks
from app.runs.service import check_comparable
from app.studies.sentences import format_margin, format_tasks_to_decide
from app.web.ui.units import format_count, format_percent, format_points, format_seconds, format_unsigned_points
from evaluation.decisions import MARGIN
from evaluation.outcomes import FIGURES, Figure
from evaluation.significance import LEAST_DISCORDANT, compute_mcnemar_p


class MeasuredRun(NamedTuple):
    """A run with all its samples, from the database or a file (run_file.py)."""

    run: Run
    tasks: Mapping[RunTask, int]  # all its tasks, without samples: how many tokens each has
    samples: Sequence[SampleRow]


@dataclass(frozen=True, slots=True)
class RunComparison:
    """`other` (B) against `reference` (A, the baseline run) at `budget_s` seconds, over the tasks both have graded."""

    overlay: Overlay
    budget_s: float
    first: PairedDifference
    all: PairedDifference
    conditions: caution.MeasurementConditions
    speed: float | None  # tokens per second of other over reference; None where devices differ or it is not known
    conclusion: Conclusion

    @property
    def figures(self) -> dict[str, PairedDifference]:
        """Both figures, by the end of their names."""
        return {"First": self.first, "All": self.all}

    @property
    def reference(self) -> Run:
        """The baseline run."""
        return self.overlay.runs[0]

    @property
    def other(self) -> Run:
        """The run that is compared with it."""
        return self.overlay.runs[1]

    def build_document(self) -> ComparisonDocument:
        """The comparison as `GET /compare` and `bassline runs compare --json` show it."""
        return ComparisonDocument.from_row(
            self,
            pass_first=self.first,
            pass_all=self.all,
            measured_in_turn=self.conditions.in_turn,
            time_bound=self.conditions.time_bound,
            withheld=self.first.withheld or self.all.withheld,
            machine_factor=self.conditions.machine_factor,
            changed=find_differences(self.reference, self.other),
        )


def load_stored_run(session: Session, run: Run) -> MeasuredRun:
    """A run of the database."""
    return MeasuredRun(run, read_tasks(session, run.id), read_samples(session, [run.id]))


def compare_runs(
    session: Session, reference: MeasuredRun, other: MeasuredRun, budget_s: float | None = None, margin: float = MARGIN
) -> RunComparison:
    """`other` against `reference`, wherever they come from, by a margin (a share of the tasks).

    Raises BadInputError for different datasets, no graded task in common, or a budget longer than a run's own.
    """
    check_comparable(reference.run, other.run)
    rows = [row._replace(run=place) for place, one in enumerate((reference, other)) for row in one.samples]
    names = {task.task.position: task.task.task_id for task in reference.tasks}
    overlay = build_overlay(session, (reference.run, other.run), rows, names)
    return compare(overlay, (reference.tasks, other.tasks), budget_s or overlay.max_budget_s, margin)


def compare(
    overlay: Overlay, tasks: Sequence[Mapping[RunTask, int]], budget_s: float, margin: float = MARGIN
) -> RunComparison:
    """The second of two runs against the first, given the tasks of each with their tokens.

    Raises BadInputError for a budget longer than a run's own.
    """
    overlay.require_measured(budget_s)
    a, b = overlay.runs
    conditions = caution.compute_conditions(overlay, tasks, budget_s)
    first, every = (_compare_figure(overlay, figure, conditions, budget_s, margin) for figure in FIGURES)
    return RunComparison(
        overlay=overlay,
        budget_s=budget_s,
        first=first,
        all=every,
        conditions=conditions,
        speed=compute_speedup(b, tasks[1], a, tasks[0]) if is_same_device((a, b)) else None,
        conclusion=build_conclusion(first),
    )


def _compare_figure(
    overlay: Overlay, figure: Figure, conditions: caution.MeasurementConditions, budget_s: float, margin: float
) -> PairedDifference:
    runs = overlay.paired_runs
    reference, other = runs.outcomes.find_solved(figure, budget_s)
    wins, losses = (
        [runs.task_ids[task] for task in np.flatnonzero(only)] for only in (other & ~reference, reference & ~other)
    )
    decision = runs.decide(figure, 1, 0, budget_s, margin)
    withheld = caution.explain_withheld_verdict(decision, figure, overlay, conditions)
    undecided = {"verdict": "undecided", "tasks_to_decide": None} if withheld else {}
    return PairedDifference.from_row(
        decision,
        n_tasks=runs.n_tasks,
        a=float(other.mean()),
        b=float(reference.mean()),
        wins=wins,
        losses=losses,
        delta=decision.difference,
        p=compute_mcnemar_p(len(wins), len(losses)),
        withheld=withheld,
        **undecided,
    )


def build_conclusion(first: PairedDifference) -> Conclusion:
    """By the verdict about B (`other`) against A in Pass@First at the budget (evaluation/decisions.py).

    Where A solves so few tasks that losing all of them would not be seen, nothing is decided unless B is better.

    Pass@All is reported and decides nothing: two tests would find a difference by chance more often than 5 %.
    A difference that the speed of the machine could explain (`withheld`, app/comparison/caution.py) is not a finding
    either way.
    """
    margin, underpowered = format_margin(first.margin), None
    if first.withheld is not None:
        title, reason = "Undecided: the machine could explain it", f"The interval excludes 0, but {first.withheld}"
    elif first.verdict == "better":
        title = "Better" if first.is_better else "Worse"
        reason = "The interval excludes 0: unlikely to be chance."
    elif underpowered := _find_lack_of_power(first):
        title, reason = "Undecided: A solves too few tasks", underpowered
    else:
        title = f"As good within {margin}" if first.verdict == "as_good" else "Undecided"
        worse, better = (
            format_unsigned_points(max(0.0, limit), first.n_tasks) for limit in (-first.at_least, first.at_most)
        )
        reason = f"B is at most {worse} points worse and at most {better} better."
        if first.tasks_to_decide is not None:
            needed = format_tasks_to_decide(first.tasks_to_decide)
            reason += f" About {needed} tasks would decide a difference of {margin}."
    return Conclusion.from_row(
        first,
        underpowered=underpowered,
        worse=first.is_worse,
        title=title,
        sentence=f"{_describe_test(first)}. {reason}",
    )


def _describe_test(first: PairedDifference) -> str:
    n = first.n_tasks
    delta, low, high = (format_points(value, n) for value in (first.delta, first.low, first.high))
    return (
        f"Pass@First at {format_seconds(first.budget_s)} over {format_count(n, 'task')}: "
        f"{format_percent(first.b, n)} -> {format_percent(first.a, n)}, {delta} points "
        f"(95 % interval {low} to {high}), {format_count(len(first.wins), 'task')} won and {len(first.losses)} lost"
    )


def describe_inferiority(first: PairedDifference) -> str | None:
    """Why B may be worse than A by more than the margin; None if the test excludes that.

    The usual test of non-inferiority: the one-sided lower limit of the difference must lie above minus the margin.
    """
    if first.at_least > -first.margin:
        return None
    n = first.n_tasks
    return (
        f"B may be more than {format_margin(first.margin)} worse than A: the difference over {format_count(n, 'task')} "
        f"is {format_points(first.delta, n)} points, and its one-sided 95 % limit is "
        f"{format_points(first.at_least, n)}. Evaluate more tasks, or give a larger margin."
    )


def _find_lack_of_power(first: PairedDifference) -> str | None:
    """Why a loss of every task that A solves would not be seen, and what to do; None where it would be."""
    solved = round(first.b * first.n_tasks)
    if solved >= LEAST_DISCORDANT:
        return None
    return (
        f"A solves {solved} of {format_count(first.n_tasks, 'task')}: even if B lost all of them, p would be "
        f"{compute_mcnemar_p(0, solved):.3f}. For a loss to be seen, A must solve at least {LEAST_DISCORDANT}: "
        "evaluate more tasks or more samples per task, or give a larger budget."
    )
