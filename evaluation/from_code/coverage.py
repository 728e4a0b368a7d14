"""What share of a project became tasks, why the rest did not, and what would change that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.from_code.build import TaskResult
from evaluation.from_code.reasons import find_remedy
from evaluation.from_code.source.find import ProjectFunction, count_lines_without_docstring


@dataclass(frozen=True)
class ExclusionCount:
    """A reason, the number of functions with it, and what would make tasks of them."""

    reason: str
    functions: int
    unlock: str


@dataclass(frozen=True)
class Coverage:
    """Counts of functions and of their lines without docstrings. The tests called `functions_called`; of these
    `functions_covered` became tasks: an example in a docstring may make a task of another one."""

    functions_seen: int
    functions_called: int
    tasks: int
    functions_covered: int
    lines_seen: int
    lines_called: int
    lines_of_tasks: int
    left_out: tuple[ExclusionCount, ...]

    @property
    def covered_share(self) -> float:
        """The share of the called functions that became tasks, from 0 to 1."""
        return self.functions_covered / self.functions_called if self.functions_called else 0.0

    @property
    def lines_share(self) -> float:
        """The share of the lines of called functions that stand in tasks, from 0 to 1."""
        return self.lines_of_tasks / self.lines_called if self.lines_called else 0.0

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        shares = {"covered_share": round(self.covered_share, 4), "lines_share": round(self.lines_share, 4)}
        return {**vars(self), **shares, "left_out": [vars(each) for each in self.left_out]}


def compute_coverage(
    functions: Sequence[ProjectFunction], called: Collection[str], made: Sequence[TaskResult]
) -> Coverage:
    """The coverage of a project by its tasks."""
    lines = {function.key: count_lines_without_docstring(function.node) for function in functions}
    tasks = {each.key for each in made if each.row is not None}
    reasons = Counter(each.reason for each in made if each.row is None)
    covered = tasks & set(called)
    left_out = sorted(reasons.items(), key=lambda each: (-each[1], each[0]))
    return Coverage(
        functions_seen=len(functions),
        functions_called=len(called),
        tasks=len(tasks),
        functions_covered=len(covered),
        lines_seen=sum(lines.values()),
        lines_called=sum(lines[key] for key in called),
        lines_of_tasks=sum(lines[key] for key in covered),
        left_out=tuple(ExclusionCount(reason, count, find_remedy(reason)) for reason, count in left_out),
    )
