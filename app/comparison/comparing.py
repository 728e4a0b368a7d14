"""Two runs over the same dataset, compared at one budget over the tasks that both have graded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy.orm import Session

from app.comparison import caution
from app.errors import BadInputError
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
    """`other` against `reference` at `budget_s` seconds.

    `first` and `every` compare Pass@First and Pass@All (delta is other - reference, wins are tasks that only `other`
    solves). `speed` is tokens per second of `other` over `reference` on common tasks, None where the devices differ
    or figures.speedup has none.
    `in_turn` says whether the runs were measured in turn, `time_bound` whether the speed of the machine matters at this
    budget, and `withheld_first` and `withheld_every` why nobody may be called better although p is below the level.
    `machine_factor` is by how much times could differ because of the machine alone, None where that is not known.
    `changed` lists settings that differ as name -> (reference's, other's). `outcomes` are the graded samples of
    `other` and of `reference`, for curves and crossovers.
    """

    reference: Run
    other: Run
    budget_s: float
    first: inference.Comparison
    every: inference.Comparison
    speed: float | None
    in_turn: bool
    time_bound: bool
    withheld_first: str | None
    withheld_every: str | None
    machine_factor: float | None
    changed: dict[str, tuple[Any, Any]]
    outcomes: tuple[Sequence[SampleOutcome], Sequence[SampleOutcome]]

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "reference": {"id": str(self.reference.id), "name": self.reference.name},
            "other": {"id": str(self.other.id), "name": self.other.name},
            "budget_s": self.budget_s,
            "pass_first": {**asdict(self.first), "withheld": self.withheld_first},
            "pass_all": {**asdict(self.every), "withheld": self.withheld_every},
            "speed": self.speed,
            "measured_in_turn": self.in_turn,
            "time_bound": self.time_bound,
            "withheld": self.withheld_first or self.withheld_every,
            "machine_factor": self.machine_factor,
            "changed": {name: list(values) for name, values in self.changed.items()},
        }


def compare_runs(session: Session, reference: Run, other: Run, budget_s: float | None = None) -> RunComparison:
    """Two runs of the database, see compare_tasks."""
    ours, theirs = tasks_without_texts(session, other.id), tasks_without_texts(session, reference.id)
    in_turn = in_one_study(session, reference.id, other.id)
    return compare_tasks(reference, theirs, other, ours, budget_s, in_turn=in_turn)


def compare_tasks(
    reference: Run,
    theirs: Sequence[RunTask],
    other: Run,
    ours: Sequence[RunTask],
    budget_s: float | None = None,
    *,
    in_turn: bool = False,
    alpha: float = inference.ALPHA,
) -> RunComparison:
    """`other` with its tasks `ours` against `reference` with `theirs`, wherever they come from.

    `in_turn` if they are arms of one study. `alpha` is the level of the test.
    Raises BadInputError for different datasets, no graded task in common, or a budget longer than a run's own.
    """
    check_comparable(reference, other)
    longest = min(reference.budget_s, other.budget_s)
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
    sides = caution.side(other, ours, a, common), caution.side(reference, theirs, b, common)
    circumstances = caution.Circumstances(
        in_turn=in_turn,
        time_bound=caution.is_time_bound(sides, budget),
        same_device=same_device(reference, other),
    )
    return RunComparison(
        reference,
        other,
        budget,
        first,
        every,
        figures.speedup(other, ours, reference, theirs) if circumstances.same_device else None,
        circumstances.in_turn,
        circumstances.time_bound,
        caution.withheld(first, *sides, circumstances),
        caution.withheld(every, *sides, circumstances),
        caution.machine_factor(*sides, circumstances),
        differences(reference, other),
        (a, b),
    )


def same_device(reference: Run, other: Run) -> bool:
    """Whether timings of the two runs can be compared: same device, number format and CPU."""
    keys = ("device", "device_name", "dtype", "cpu")
    return all(reference.provenance.get(key) == other.provenance.get(key) for key in keys)
