"""Comparisons as the API shows them. Budgets and times are in seconds, shares from 0 to 1."""

from __future__ import annotations

import uuid
from typing import Any

from pydantic import Field

from app.web.http.schemas import ResponseModel
from evaluation.decisions import PairVerdict


class ComparedRun(ResponseModel):
    """One side of a comparison."""

    id: uuid.UUID
    name: str


class PairedDifference(ResponseModel):
    """`other` (a) against `reference` (b): difference of shares with its 95 % interval, and McNemar's exact p.

    The interval holds at all budgets together, and for all pairs of arms where the runs are of one study; p is of this
    budget alone and decides nothing.
    """

    n_tasks: int
    budget_s: float
    a: float
    b: float
    wins: list[str] = Field(description="tasks that only `other` solves")
    losses: list[str] = Field(description="tasks that only `reference` solves")
    delta: float
    low: float
    high: float
    p: float
    verdict: PairVerdict = Field(description="better: the one with more tasks; as_good within the margin; or undecided")
    margin: float
    at_least: float = Field(description="one-sided 95 % lower limit of delta")
    at_most: float = Field(description="one-sided 95 % upper limit of delta")
    tasks_to_decide: int | None = Field(description="how many tasks would decide a difference of the margin")
    withheld: str | None = Field(description="why the verdict is undecided although the interval excludes 0")

    @property
    def is_better(self) -> bool:
        """Whether `other` is shown to be better."""
        return self.verdict == "better" and self.delta > 0

    @property
    def is_worse(self) -> bool:
        """Whether `reference` is shown to be better."""
        return self.verdict == "better" and self.delta < 0


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


class ComparisonDocument(ResponseModel):
    """Two runs over the same dataset at one budget, over the tasks that both have graded."""

    reference: ComparedRun
    other: ComparedRun
    budget_s: float
    pass_first: PairedDifference
    pass_all: PairedDifference
    speed: float | None = Field(description="tokens per second of other over reference; null where devices differ")
    measured_in_turn: bool = Field(description="the runs are arms of one study, so that drift affects both equally")
    time_bound: bool = Field(description="a sample of the common tasks ended after budget_s or was cut by the deadline")
    withheld: str | None = Field(description="pass_first's, else pass_all's")
    machine_factor: float | None = Field(
        description="by how much times could differ because of the machine alone; null: not known"
    )
    changed: dict[str, tuple[Any, Any]] = Field(description="settings that differ: [reference's, other's]")
    conclusion: Conclusion
