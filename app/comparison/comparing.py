"""Two runs over the same dataset, compared at one budget over the tasks that both have graded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy.orm import Session

from app.errors import BadInput
from app.runs import figures
from app.runs.configuration import differences
from app.runs.models import Run
from app.runs.repository import tasks_without_texts
from app.runs.service import check_comparable
from evaluation import inference
from evaluation.metrics import SampleOutcome


@dataclass(frozen=True, slots=True)
class RunComparison:
    """`other` against `reference` at `budget_s` seconds.

    `first` and `every` compare Pass@First and Pass@All (delta is other - reference, wins are tasks that only `other`
    solves). `speed` is tokens per second of `other` over `reference` on common tasks, None where the devices differ
    or figures.speedup has none.
    `changed` lists settings that differ as name -> (reference's, other's). `outcomes` are the graded samples of
    `other` and of `reference`, for what else may be computed from them.
    """

    reference: Run
    other: Run
    budget_s: float
    first: inference.Comparison
    every: inference.Comparison
    speed: float | None
    changed: dict[str, tuple[Any, Any]]
    outcomes: tuple[Sequence[SampleOutcome], Sequence[SampleOutcome]]

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "reference": {"id": str(self.reference.id), "name": self.reference.name},
            "other": {"id": str(self.other.id), "name": self.other.name},
            "budget_s": self.budget_s,
            "pass_first": asdict(self.first),
            "pass_all": asdict(self.every),
            "speed": self.speed,
            "changed": {name: list(values) for name, values in self.changed.items()},
        }


def compare_runs(session: Session, reference: Run, other: Run, budget_s: float | None = None) -> RunComparison:
    """Raises BadInput for different datasets, no graded task in common, or a budget longer than a run's own."""
    check_comparable(reference, other)
    longest = min(reference.budget_s, other.budget_s)
    if budget_s is not None and budget_s > longest:
        raise BadInput(
            f"budget is {budget_s:g}: one of the runs stopped at {longest:g} seconds, give at most that", "budget"
        )
    budget = budget_s or longest
    ours, theirs = tasks_without_texts(session, other.id), tasks_without_texts(session, reference.id)
    a, b = figures.graded_outcomes(ours), figures.graded_outcomes(theirs)
    if not {o.task_id for o in a} & {o.task_id for o in b}:
        raise BadInput("the two runs have no graded task in common: finish one of them first", "run")
    return RunComparison(
        reference,
        other,
        budget,
        inference.compare(a, b, budget),
        inference.compare(a, b, budget, None),
        figures.speedup(other, ours, reference, theirs) if same_device(reference, other) else None,
        differences(reference, other),
        (a, b),
    )


def same_device(reference: Run, other: Run) -> bool:
    """Whether timings of the two may stand side by side."""
    keys = ("device", "device_name", "dtype", "cpu")
    return all(reference.provenance.get(key) == other.provenance.get(key) for key in keys)
