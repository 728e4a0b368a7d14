"""Overlays, matrices and comparisons as the API shows them. Budgets and times are in seconds, shares from 0 to 1."""

from __future__ import annotations

import uuid
from typing import Any, Literal

from pydantic import Field

from app.http.schemas import ResponseModel
from evaluation.verdicts import Failure


class OverlaidRun(ResponseModel):
    """A run of an overlay."""

    id: uuid.UUID
    name: str
    letter: str
    budget_s: float
    tasks_graded: int


class LineDifference(ResponseModel):
    """A line minus the baseline over the common tasks, with its 95 % interval.

    `wins`, `losses`, `p` and `beyond_chance` are null between means over several runs.
    """

    delta: float
    low: float
    high: float
    wins: int | None = Field(description="tasks that only this run solves")
    losses: int | None = Field(description="tasks that only the baseline solves")
    p: float | None = Field(description="exact two-sided p-value of McNemar's test")
    beyond_chance: bool | None = Field(description="after Holm's correction over all lines, at 5 %")


class LineShare(ResponseModel):
    """Pass@First or Pass@All of a line at the budget, with its 95 % interval."""

    share: float
    low: float
    high: float
    spread: tuple[float, float] | None = Field(description="lowest and highest of the line's runs; null for one run")
    difference: LineDifference | None = Field(description="to the baseline; null for the baseline itself")


class LineDocument(ResponseModel):
    """One line: a run, or the mean over the runs of a group, at the budget and as a curve up to its own end.

    `curve_first[i]` and `curve_all[i]` are its shares from `budgets[i]` seconds to the next.
    """

    key: str
    label: str
    runs: list[uuid.UUID]
    pass_first: LineShare
    pass_all: LineShare
    budgets: list[float]
    curve_first: list[float]
    curve_all: list[float]


class OverlayDocument(ResponseModel):
    """Runs of an overlay at one budget, over the tasks that all of them have graded."""

    dataset: str
    budget_s: float
    longest_s: float = Field(description="the shortest budget of the runs: the largest budget that can be asked for")
    group: str | None = Field(description="the option that the lines are grouped by")
    tasks: list[str] = Field(description="the common tasks")
    measured_in_turn: bool = Field(
        description="the runs are arms of one study, so that drift affects all of them equally"
    )
    runs: list[OverlaidRun]
    lines: list[LineDocument] = Field(description="the baseline's first")


class MatrixCell(ResponseModel):
    """One run at one task within the budget."""

    outcome: Literal["first", "any", "none"] = Field(description="solved by the chosen sample, by another, by none")
    failure: Failure | None = Field(description="the class of the chosen sample where none passed")
    first_correct_s: float | None = Field(description="when the first passing sample finished; null: not in time")


class MatrixRow(ResponseModel):
    """One task, with a cell for each run."""

    task_id: str
    cells: list[MatrixCell]


class MatrixDocument(ResponseModel):
    """Tasks by runs at one budget, first the tasks that divide the runs most evenly."""

    dataset: str
    budget_s: float
    runs: list[OverlaidRun]
    tasks_total: int = Field(description="common tasks, before the filters")
    rows: list[MatrixRow]


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
    measured_in_turn: bool = Field(description="the runs are arms of one study, so that drift affects both equally")
    time_bound: bool = Field(description="a sample of the common tasks ended after budget_s or was cut by the deadline")
    withheld: str | None = Field(description="pass_first's, else pass_all's")
    machine_factor: float | None = Field(
        description="by how much times could differ because of the machine alone; null: not known"
    )
    changed: dict[str, tuple[Any, Any]] = Field(description="settings that differ: [reference's, other's]")
    conclusion: Conclusion
