"""What only two runs have: the difference at one budget, what the machine could explain of it, and what was changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy.orm import Session

from app.comparison import caution
from app.comparison.decision import Conclusion, decide
from app.comparison.loading import Overlaid, lay_over
from app.comparison.notes import same_device
from app.core.errors import BadInputError
from app.runs.configuration import differences
from app.runs.figures import SELECTOR, speedup
from app.runs.models import Run, RunTask
from app.runs.outcomes import SampleRow, read_samples, read_tasks
from app.runs.service import check_comparable
from evaluation.decisions import MARGIN, PairDecision
from evaluation.inference import ALPHA, Comparison, compare_solved
from evaluation.outcomes import FIGURES, Figure


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

    found: Overlaid
    budget_s: float
    first: PairedFigure
    all: PairedFigure
    measured: caution.Circumstances
    speed: float | None  # tokens per second of other over reference; None where devices differ or it is not known
    conclusion: Conclusion

    @property
    def figures(self) -> dict[str, PairedFigure]:
        """Both figures, by the end of their names."""
        return {"First": self.first, "All": self.all}

    @property
    def reference(self) -> Run:
        """The baseline run."""
        return self.found.runs[0]

    @property
    def other(self) -> Run:
        """The run that is compared with it."""
        return self.found.runs[1]

    @property
    def machine_factor(self) -> float | None:
        """By how much times could differ because of the machine alone; None: not known."""
        return self.measured.machine_factor

    @property
    def changed(self) -> dict[str, tuple[Any, Any]]:
        """The options that differ, by name: (the reference's value, the other's)."""
        return differences(self.reference, self.other)


def measured_run(session: Session, run: Run) -> MeasuredRun:
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
    found = lay_over(session, (reference.run, other.run), rows, names, alpha=alpha)
    return compare(found, (reference.tasks, other.tasks), budget_s or found.longest_s, margin)


def compare(
    found: Overlaid, tasks: Sequence[Mapping[RunTask, int]], budget_s: float, margin: float = MARGIN
) -> RunComparison:
    """The second of two runs against the first, given the tasks of each with their tokens.

    Raises BadInputError for a budget longer than a run's own.
    """
    if budget_s > found.longest_s:
        raise BadInputError(
            f"budget is {budget_s:g}: one of the runs stopped at {found.longest_s:g} seconds, give at most that",
            "budget",
        )
    a, b = found.runs
    measured = caution.circumstances(found, tasks, budget_s)
    first, every = (_compare_figure(found, figure, measured, budget_s, margin) for figure in FIGURES)
    return RunComparison(
        found=found,
        budget_s=budget_s,
        first=first,
        all=every,
        measured=measured,
        speed=speedup(b, tasks[1], a, tasks[0]) if same_device((a, b)) else None,
        conclusion=decide(first.paired, first.decision, first.withheld),
    )


def _compare_figure(
    found: Overlaid, figure: Figure, measured: caution.Circumstances, budget_s: float, margin: float
) -> PairedFigure:
    runs, selector = found.compared, SELECTOR if figure == "first" else None
    solved = runs.outcomes.solved(figure, budget_s)
    paired = compare_solved(runs.task_ids, solved[1], solved[0], budget_s, selector, runs.alpha)
    decision = runs.decide(figure, 1, 0, budget_s, margin)
    return PairedFigure(paired, decision, caution.withheld(decision, figure, found, measured))
