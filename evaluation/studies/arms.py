"""The arms of a study, compared over the tasks that all of them have graded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evaluation.outcomes import Figure, PairedOutcomes
from evaluation.paired_runs import PairedRuns


@dataclass(frozen=True, slots=True)
class Arm:
    """One configuration, without its samples."""

    name: str
    target: str
    drafter: str
    n: int
    family: str  # a text of all options but n: arms of one family differ only in n
    # a text of all options but drafter, draft length, acceptance and their like: arms of one drafting family
    # differ only in how they draft
    drafting_family: str
    speculative: bool  # False for regular decoding (no drafter)
    cost_s: float  # mean engine time per task in seconds; orders "cheapest first"
    # What the paper's table shows of an arm beside its samples; None where it was not measured.
    tokens_per_s: float | None = None
    mean_acceptance_length: float | None = None  # tokens per round and sample, the target's own included
    utilization: float | None = None  # the share of the device's peak arithmetic


class ArmComparison(PairedRuns):
    """The arms over the tasks that all of them have graded.

    Leave out an arm that was dropped or has failed: its few tasks would be all that the others are compared on.
    """

    def __init__(self, arms: Sequence[Arm], outcomes: PairedOutcomes, end_s: float) -> None:
        super().__init__(outcomes, end_s)
        self.arms = tuple(arms)

    def select(self, arms: Sequence[int], end_s: float, n_tasks: int | None = None) -> ArmComparison:
        """Some of the arms, up to a budget, over the first `n_tasks` (default: all)."""
        tasks = range(self.n_tasks if n_tasks is None else n_tasks)
        return ArmComparison([self.arms[arm] for arm in arms], self.outcomes.select(arms, tasks), end_s)

    def find_leader(self, figure: Figure, budget_s: float, among: Iterable[int] | None = None) -> int | None:
        """The arm that solves the most tasks at the budget, None while none solves any.

        Of several, the one that is ahead in the other figure leads, then the cheapest, then the first in the list.
        """
        other: Figure = "first" if figure == "all" else "all"
        best = min(
            range(len(self.arms)) if among is None else among,
            key=lambda arm: (
                -self.count(figure, arm, budget_s), -self.count(other, arm, budget_s), self.arms[arm].cost_s, arm,
            ),
        )  # fmt: skip
        return best if self.count(figure, best, budget_s) else None
