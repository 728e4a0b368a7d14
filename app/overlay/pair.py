"""What only two runs have: the difference at one budget, what the machine could explain of it, and what was changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy.orm import Session

from app.errors import BadInputError
from app.overlay import caution, repository
from app.overlay.decision import Conclusion, decide
from app.overlay.loading import Overlaid, overlay
from app.overlay.notes import same_device
from app.overlay.repository import SampleRow
from app.overlay.verdicts import Terms, decide_pair
from app.runs.configuration import differences
from app.runs.figures import SELECTOR, speedup
from app.runs.models import Run, RunTask
from app.runs.service import check_comparable
from app.studies.repository import count_rivals, in_one_study
from evaluation.decisions import MARGIN, PairBand, PairDecision
from evaluation.inference import ALPHA, Comparison, compare_solved


class MeasuredRun(NamedTuple):
    """A run with all its samples, from the database or a file (run_file.py)."""

    run: Run
    tasks: Mapping[RunTask, int]  # all its tasks, without samples: how many tokens each has
    samples: Sequence[SampleRow]


@dataclass(frozen=True, slots=True)
class RunComparison:
    """`other` (B) against `reference` (A, the baseline run) at `budget_s` seconds, over the tasks both have graded."""

    found: Overlaid
    budget_s: float
    pass_first: Comparison  # delta is other - reference, wins are tasks that only `other` solves
    pass_all: Comparison
    measured: caution.Circumstances
    speed: float | None  # tokens per second of other over reference; None where devices differ or it is not known
    band_first: PairBand  # other - reference in Pass@First
    decision_first: PairDecision  # that band at the budget
    decision_all: PairDecision
    withheld_first: str | None  # why neither may be called better in Pass@First although the verdict is
    withheld_all: str | None
    conclusion: Conclusion

    @property
    def reference(self) -> Run:
        """The baseline run."""
        return self.found.runs[0]

    @property
    def other(self) -> Run:
        """The run that is compared with it."""
        return self.found.runs[1]

    @property
    def changed(self) -> dict[str, tuple[Any, Any]]:
        """The options that differ, by name: (the reference's value, the other's)."""
        return differences(self.reference, self.other)


def measured_run(session: Session, run: Run) -> MeasuredRun:
    """A run of the database."""
    return MeasuredRun(run, repository.tasks_with_tokens(session, run.id), repository.samples(session, [run.id]))


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
    found = overlay((reference.run, other.run), rows, names)
    ids = (reference.run.id, other.run.id)
    terms = Terms(in_one_study(session, ids), count_rivals(session, ids), alpha, margin)
    return compare(found, (reference.tasks, other.tasks), budget_s or found.longest_s, terms)


def compare(found: Overlaid, tasks: Sequence[Mapping[RunTask, int]], budget_s: float, terms: Terms) -> RunComparison:
    """The second of two runs against the first, given the tasks of each with their tokens.

    Raises BadInputError for a budget longer than a run's own.
    """
    if budget_s > found.longest_s:
        raise BadInputError(
            f"budget is {budget_s:g}: one of the runs stopped at {found.longest_s:g} seconds, give at most that",
            "budget",
        )
    a, b = found.runs
    first, every = (
        compare_solved(found.task_ids, solved[1], solved[0], budget_s, selector, terms.alpha)
        for solved, selector in zip(found.measured.at(budget_s), (SELECTOR, None), strict=True)
    )
    bands = decide_pair(found, terms)
    decisions = [band.decide(budget_s, terms.margin) for band in bands]
    measured = caution.circumstances(found, tasks, budget_s, in_turn=terms.in_turn)
    withheld_first, withheld_all = (
        caution.withheld(decision, figure, found, measured, terms) for figure, decision in enumerate(decisions)
    )
    return RunComparison(
        found=found,
        budget_s=budget_s,
        pass_first=first,
        pass_all=every,
        measured=measured,
        speed=speedup(b, tasks[1], a, tasks[0]) if same_device((a, b)) else None,
        band_first=bands[0],
        decision_first=decisions[0],
        decision_all=decisions[1],
        withheld_first=withheld_first,
        withheld_all=withheld_all,
        conclusion=decide(first, decisions[0], withheld_first),
    )
