"""Overlays and matrices as the API shows them. Budgets and times are in seconds, shares from 0 to 1."""

from __future__ import annotations

import uuid
from typing import Literal

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
    """Runs laid over each other at one budget, over the tasks that all of them have graded."""

    dataset: str
    budget_s: float
    longest_s: float = Field(description="the shortest budget of the runs: the largest budget that can be asked for")
    group: str | None = Field(description="the option that the lines are grouped by")
    tasks: list[str] = Field(description="the common tasks")
    measured_in_turn: bool = Field(description="the runs are arms of one study, so that drift met all alike")
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
