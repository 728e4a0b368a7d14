"""Compares two runs: the difference at one budget, how much the machine could explain, what was changed, and
whether one is worse: the one place that decides it, for `runs compare` and the files it writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import Field
from sqlalchemy.orm import Session

from app.comparison import caution
from app.comparison.caution import is_same_device
from app.comparison.loading import Overlay, build_overlay
from app.runs.configuration import find_differences
from app.runs.figures import SELECTOR, compute_speedup
from app.runs.models import Run, RunTask
from app.runs.outcomes import SampleRow, read_samples, read_tasks
from app.runs.service import check_comparable
from app.studies.sentences import format_margin, format_tasks_to_decide
from app.web.http.schemas import ResponseModel
from app.web.ui.units import format_count, format_percent, format_points, format_seconds, format_unsigned_points
from evaluation.decisions import MARGIN, PairDecision, PairVerdict
from evaluation.outcomes import FIGURES, Figure
from evaluation.significance import ALPHA, Comparison, compare_solved, compute_least_discordant, compute_mcnemar_p


class Conclusion(ResponseModel):
    """What `bassline runs compare --fail-if-worse` decides by: it ends with 3 for `worse`, 2 for `underpowered`."""

    underpowered: str | None = Field(
        description="`reference` solves so few tasks that no loss could be seen: why, and what to do"
    )
    worse: bool = Field(description="`reference` is better than `other` in Pass@First")
    verdict: PairVerdict = Field(description="better: the one with more tasks; as_good within the margin; or undecided")
    margin: float = Field(description="a share of the tasks, 0.05 are 5 points")
    tasks_to_decide: int | None = Field(
        description="how many tasks would decide a difference of the margin; null if decided or above 100,000"
    )
    title: str
    sentence: str = Field(description="what was tested and how it came out")


def build_conclusion(first: Comparison, decision: PairDecision, withheld: str | None) -> Conclusion:
    """By the verdict about B (`other`) against A in Pass@First at the budget (evaluation/decisions.py).

    Where A solves so few tasks that losing all of them would not be seen, nothing is decided unless B is better.

    Pass@All is reported and decides nothing: two tests would find a difference by chance more often than 5 %.
    A difference that the speed of the machine could explain (`withheld`, app/comparison/caution.py) is not a finding
    either way.
    """
    n, margin = first.n_tasks, format_margin(decision.margin)
    verdict, tasks_to_decide, underpowered = decision.verdict, decision.tasks_to_decide, None
    if withheld is not None:
        verdict, tasks_to_decide = "undecided", None
        title, reason = "Undecided: the machine could explain it", f"The interval excludes 0, but {withheld}"
    elif verdict == "better":
        title = "Better" if decision.is_better else "Worse"
        reason = "The interval excludes 0: unlikely to be chance."
    elif underpowered := _find_lack_of_power(first):
        title, reason = "Undecided: A solves too few tasks", underpowered
    elif verdict == "as_good":
        title, reason = f"As good within {margin}", _describe_limits(decision, n)
    else:
        title, reason = f"Undecided: {_describe_possible_loss(decision, n)}", _describe_limits(decision, n)
        if tasks_to_decide is not None:
            needed = format_tasks_to_decide(tasks_to_decide)
            reason += f" About {needed} tasks would decide a difference of {margin}."
    return Conclusion(
        underpowered=underpowered, worse=verdict == "better" and decision.is_worse, verdict=verdict,
        margin=decision.margin, tasks_to_decide=tasks_to_decide, title=title,
        sentence=f"{_describe_test(first, decision)}. {reason}",
    )  # fmt: skip


def _describe_test(first: Comparison, decision: PairDecision) -> str:
    n = first.n_tasks
    shares = f"{format_percent(first.b, n)} -> {format_percent(first.a, n)}"
    interval = f"{format_points(decision.low, n)} to {format_points(decision.high, n)}"
    return (
        f"Pass@First at {format_seconds(first.budget_s)} over {format_count(n, 'task')}: {shares}, "
        f"{format_points(decision.difference, n)} points (95 % interval {interval}), "
        f"{format_count(len(first.wins), 'task')} won and {len(first.losses)} lost"
    )


def describe_inferiority(decision: PairDecision, n_tasks: int) -> str | None:
    """Why B may be worse than A by more than the margin; None if the test excludes that.

    The usual test of non-inferiority: the one-sided lower limit of the difference must lie above minus the margin.
    """
    if decision.is_not_worse:
        return None
    return (
        f"B may be more than {format_margin(decision.margin)} worse than A: the difference over "
        f"{format_count(n_tasks, 'task')} is {format_points(decision.difference, n_tasks)} points, and its "
        f"one-sided 95 % limit is {format_points(decision.at_least, n_tasks)}. Evaluate more tasks, or give a larger "
        "margin."
    )


def _describe_limits(decision: PairDecision, n_tasks: int) -> str:
    worse, better = (max(0.0, limit) for limit in (-decision.at_least, decision.at_most))
    return (
        f"B is at most {format_unsigned_points(worse, n_tasks)} points worse and at most "
        f"{format_unsigned_points(better, n_tasks)} better."
    )


def _describe_possible_loss(decision: PairDecision, n_tasks: int) -> str:
    possible = format_unsigned_points(max(0.0, -decision.at_least), n_tasks)
    if possible == format_unsigned_points(0.0, n_tasks):
        return "no significant gain"
    return f"no significant loss; up to {possible} {'point' if possible == '1' else 'points'} is possible"


def _find_lack_of_power(first: Comparison) -> str | None:
    """Why a loss of every task that A solves would not be seen, and what to do; None where it would be."""
    solved, needed = round(first.b * first.n_tasks), compute_least_discordant(first.alpha)
    if solved >= needed:
        return None
    return (
        f"A solves {solved} of {format_count(first.n_tasks, 'task')}: even if B lost all of them, p would be "
        f"{compute_mcnemar_p(0, solved):.3f}. For a loss to be seen at {first.alpha:g}, A must solve at least "
        f"{needed}: evaluate more tasks or more samples per task, give a larger budget, or test at a larger alpha."
    )


class MeasuredRun(NamedTuple):
    """A run with all its samples, from the database or a file (run_file.py)."""

    run: Run
    tasks: Mapping[RunTask, int]  # all its tasks, without samples: how many tokens each has
    samples: Sequence[SampleRow]


@dataclass(frozen=True, slots=True)
class PairedFigure:
    """Pass@First or Pass@All of `other` (B) against `reference` (A)."""

    paired: Comparison  # delta is other - reference, wins are tasks that only `other` solves
    decision: PairDecision
    withheld: str | None  # why neither may be called better although the decision is


@dataclass(frozen=True, slots=True)
class RunComparison:
    """`other` (B) against `reference` (A, the baseline run) at `budget_s` seconds, over the tasks both have graded."""

    overlay: Overlay
    budget_s: float
    first: PairedFigure
    all: PairedFigure
    conditions: caution.MeasurementConditions
    speed: float | None  # tokens per second of other over reference; None where devices differ or it is not known
    conclusion: Conclusion

    @property
    def figures(self) -> dict[str, PairedFigure]:
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

    @property
    def machine_factor(self) -> float | None:
        """By how much times could differ because of the machine alone; None: not known."""
        return self.conditions.machine_factor

    @property
    def changed(self) -> dict[str, tuple[Any, Any]]:
        """The options that differ, by name: (the reference's value, the other's)."""
        return find_differences(self.reference, self.other)


def load_stored_run(session: Session, run: Run) -> MeasuredRun:
    """A run of the database."""
    return MeasuredRun(run, read_tasks(session, run.id), read_samples(session, [run.id]))


def compare_runs(
    session: Session, reference: MeasuredRun, other: MeasuredRun, budget_s: float | None = None, alpha: float = ALPHA,
    margin: float = MARGIN,
) -> RunComparison:  # fmt: skip
    """`other` against `reference`, wherever they come from, by a margin (a share of the tasks).

    Raises BadInputError for different datasets, no graded task in common, or a budget longer than a run's own.
    """
    check_comparable(reference.run, other.run)
    rows = [row._replace(run=place) for place, one in enumerate((reference, other)) for row in one.samples]
    names = {task.task.position: task.task.task_id for task in reference.tasks}
    overlay = build_overlay(session, (reference.run, other.run), rows, names, alpha=alpha)
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
        conclusion=build_conclusion(first.paired, first.decision, first.withheld),
    )


def _compare_figure(
    overlay: Overlay, figure: Figure, conditions: caution.MeasurementConditions, budget_s: float, margin: float
) -> PairedFigure:
    runs, selector = overlay.paired_runs, SELECTOR if figure == "first" else None
    solved = runs.outcomes.find_solved(figure, budget_s)
    paired = compare_solved(runs.task_ids, solved[1], solved[0], budget_s, selector, runs.alpha)
    decision = runs.decide(figure, 1, 0, budget_s, margin)
    return PairedFigure(paired, decision, caution.explain_withheld_verdict(decision, figure, overlay, conditions))
