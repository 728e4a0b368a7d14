"""The arms of a study, and which of them solves which task at which budget.

Arms compare over the tasks that all of them have graded, so that every comparison is paired. Leave an arm that was
dropped or has failed out of `score`: its few tasks would be all that the others are compared on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from evaluation.metrics import MetricError, SampleOutcome, solved

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ArmTiming:
    """What the paper's table shows of an arm beside its samples; None where it was not measured.

    Milliseconds per token are computed from the samples. `mean_acceptance_length` is in tokens per round and sample,
    the target's own included; `utilization` is the share of the device's peak arithmetic.
    """

    tokens_per_s: float | None = None
    mean_acceptance_length: float | None = None
    utilization: float | None = None


@dataclass(frozen=True, slots=True)
class Arm:
    """One configuration with its graded samples.

    `family` is a text of all options but n: arms of one family differ only in n. `pair` is a text of all options but
    drafter, draft length, acceptance and their like: arms of one pair differ only in how they draft. `speculative`
    is False for regular decoding (no drafter). `cost_s` is the mean engine time per task in seconds; it orders
    "cheapest first". Every graded task has at least one row in `outcomes`.
    """

    name: str
    target: str
    drafter: str
    n: int
    family: str
    pair: str
    speculative: bool
    cost_s: float
    outcomes: tuple[SampleOutcome, ...]
    timing: ArmTiming = field(default_factory=ArmTiming)


@dataclass(frozen=True, slots=True)
class Scored:
    """Whether each arm solves each common task within each budget (seconds), by its chosen sample (`first`) or by
    any (`all`), bool `[A, T, K]`. `arms` hold the samples of the common tasks only."""

    arms: tuple[Arm, ...]
    task_ids: tuple[str, ...]
    budgets: tuple[float, ...]
    first: Bools
    all: Bools

    def at(self, budgets: Sequence[float]) -> Scored:
        """The same at some of its budgets only."""
        columns = [self.budgets.index(budget) for budget in budgets]
        return replace(self, budgets=tuple(budgets), first=self.first[:, :, columns], all=self.all[:, :, columns])


def common_tasks(arms: Sequence[Arm]) -> tuple[str, ...]:
    """The ids of the tasks that all arms have graded, in the order of the first arm; empty without arms."""
    if not arms:
        return ()
    graded = [dict.fromkeys(outcome.task_id for outcome in arm.outcomes) for arm in arms]
    return tuple(task_id for task_id in graded[0] if all(task_id in others for others in graded[1:]))


def score(arms: Sequence[Arm], budgets: Sequence[float]) -> Scored:
    """Every arm at every budget over the common tasks. Raises MetricError without arms or without a common task."""
    if not arms:
        raise MetricError("the study has no arm to measure")
    task_ids = common_tasks(arms)
    if not task_ids:
        raise MetricError("the arms have no graded task in common yet")
    place = {task_id: row for row, task_id in enumerate(task_ids)}
    shared = [replace(arm, outcomes=tuple(o for o in arm.outcomes if o.task_id in place)) for arm in arms]
    shape = (len(arms), len(task_ids), len(budgets))
    first, every = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
    for row, arm in enumerate(shared):
        of_arm = solved(arm.outcomes, budgets)
        rows = [place[task_id] for task_id in of_arm.task_ids]
        first[row, rows], every[row, rows] = of_arm.first, of_arm.all
    return Scored(tuple(shared), task_ids, tuple(budgets), first, every)
