"""The comparison of two runs as the API and `--json` show it."""

from __future__ import annotations

import uuid
from typing import Any

from pydantic import Field

from app.http.schemas import ResponseModel


class ComparedRun(ResponseModel):
    """One side of a comparison."""

    id: uuid.UUID
    name: str


class PairedDifference(ResponseModel):
    """`other` (a) against `reference` (b): difference of shares with its 95 % interval, and McNemar's exact p."""

    n_tasks: int
    budget_s: float
    selector: str | None
    a: float
    b: float
    wins: list[str] = Field(description="tasks that only `other` solves")
    losses: list[str] = Field(description="tasks that only `reference` solves")
    ties: int
    delta: float
    low: float
    high: float
    p: float
    alpha: float = Field(description="the level of the test")
    withheld: str | None = Field(description="why nobody may be called better although p is below alpha")
    detectable: float = Field(description="the smallest true difference that a test over n_tasks finds in 80 %")


class Conclusion(ResponseModel):
    """What `bassline runs compare --fail-if-worse` decides by."""

    underpowered: str | None = Field(
        description="`reference` solves so few tasks that no loss could be seen: why, and what to do"
    )
    worse: bool = Field(description="`other` solves fewer tasks in Pass@First, and chance does not explain it")
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
    measured_in_turn: bool = Field(description="the runs are arms of one study, so that drift met both alike")
    time_bound: bool = Field(description="a sample of the common tasks ended after budget_s or was cut by the deadline")
    withheld: str | None = Field(description="that of pass_first, else of pass_all")
    machine_factor: float | None = Field(
        description="by how much times could differ because of the machine alone; null: not known"
    )
    changed: dict[str, tuple[Any, Any]] = Field(description="settings that differ: [reference's, other's]")
    conclusion: Conclusion
