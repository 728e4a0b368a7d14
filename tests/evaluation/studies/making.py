"""Arms written down in a test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.metrics import SampleOutcome
from evaluation.outcomes import PairedOutcomes
from evaluation.studies.arms import Arm, ArmComparison

TOKENS = 100

Sample = tuple[float | None, bool]
"""When it finished (None: not within the budget), and whether it passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeArm(Arm):
    """An arm with its samples."""

    outcomes: tuple[SampleOutcome, ...]


def score(arms: Sequence[MadeArm], end_s: float) -> ArmComparison:
    """The arms over their common tasks, up to a budget."""
    return ArmComparison(arms, PairedOutcomes.from_samples(*(arm.outcomes for arm in arms)), end_s)


def arm(
    name: str, tasks: Sequence[Sequence[Sample]], *, n: int | None = None, start: int = 0, **options: Any
) -> MadeArm:
    """An arm with the given samples for each task; earlier samples have the higher mean log-probability."""
    outcomes = tuple(
        SampleOutcome(f"T/{start + task}", index, finished, -0.1 - index, passed, TOKENS)
        for task, samples in enumerate(tasks)
        for index, (finished, passed) in enumerate(samples)
    )
    return arm_of(name, outcomes, n=n or len(tasks[0]), **options)


def arm_of(
    name: str,
    outcomes: tuple[SampleOutcome, ...],
    *,
    n: int,
    speculative: bool = False,
    family: str = "",
    drafting_family: str = "",
    target: str = "0.5b",
    cost_s: float = 1.0,
    **measured: float,
) -> MadeArm:
    """An arm with these samples."""
    return MadeArm(
        name=name,
        target=target,
        drafter="sibling" if speculative else "none",
        n=n,
        family=family or name,
        drafting_family=drafting_family or name,
        speculative=speculative,
        cost_s=cost_s,
        outcomes=outcomes,
        **measured,
    )


def passing(name: str, share: int, of: int, finished_s: float = 1.0, **options) -> MadeArm:
    """One sample for each task, of which the first `share` pass."""
    return arm(name, [[(finished_s, task < share)] for task in range(of)], **options)


def coin(rng: np.random.Generator, tasks: int, share: float, finished_s: float = 1.0) -> list[list[Sample]]:
    """One sample for each task, which passes with this probability."""
    return [[(finished_s, bool(passed))] for passed in rng.random(tasks) < share]
