"""The arms of a study, and which of them solves which task at which budget.

Arms compare over the tasks that all of them have graded, so that every comparison is paired. Leave an arm that was
dropped or has failed out of `score`: its few tasks would be all that the others are compared on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from evaluation.many_runs import ManyRuns, SampleColumns
from evaluation.metrics import Curve, MetricError, SampleOutcome

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
    """One configuration with its graded samples."""

    name: str
    target: str
    drafter: str
    n: int
    family: str  # a text of all options but n: arms of one family differ only in n
    # a text of all options but drafter, draft length, acceptance and their like: arms of one pair differ only in how
    # they draft
    pair: str
    speculative: bool  # False for regular decoding (no drafter)
    cost_s: float  # mean engine time per task in seconds; orders "cheapest first"
    outcomes: tuple[SampleOutcome, ...]  # at least one for every graded task
    timing: ArmTiming = field(default_factory=ArmTiming)


@dataclass(frozen=True, slots=True)
class Scored:
    """Whether each arm solves each common task within each budget (seconds)."""

    arms: tuple[Arm, ...]  # with the samples of the common tasks only
    task_ids: tuple[str, ...]
    budgets: tuple[float, ...]
    first: Bools  # by its chosen sample, `[A, T, K]`
    all: Bools  # by any sample, `[A, T, K]`
    measured: ManyRuns  # the same samples as arrays

    def at(self, budgets: Sequence[float]) -> Scored:
        """The same arms and tasks at other budgets."""
        return _scored(self.arms, self.task_ids, self.measured, budgets)

    def curve(self, arm: int) -> Curve:
        """The curve of an arm up to the last budget."""
        return self.measured.curve(arm, self.budgets[-1])


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
    shared = tuple(replace(arm, outcomes=tuple(o for o in arm.outcomes if o.task_id in place)) for arm in arms)
    outcomes = [outcome for arm in shared for outcome in arm.outcomes]
    columns = SampleColumns(
        run=np.repeat(np.arange(len(shared)), [len(arm.outcomes) for arm in shared]),
        task=np.array([place[o.task_id] for o in outcomes], dtype=np.int64),
        index=np.array([o.index for o in outcomes], dtype=np.int64),
        finished_s=np.array([o.finished_s for o in outcomes], dtype=np.float64),
        mean_logprob=np.array([o.mean_logprob for o in outcomes], dtype=np.float64),
        passed=np.array([o.passed for o in outcomes], dtype=np.bool_),
    )
    return _scored(shared, task_ids, ManyRuns(len(shared), len(task_ids), columns), budgets)


def _scored(arms: tuple[Arm, ...], task_ids: tuple[str, ...], measured: ManyRuns, budgets: Sequence[float]) -> Scored:
    return Scored(arms, task_ids, tuple(budgets), *measured.solved(budgets), measured)
