"""Pass@First and Pass@All of each run of an overlay at one budget, and the paired differences to the baseline run."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from app.comparison.loading import Overlaid
from app.web.http.schemas import ResponseModel
from evaluation.decisions import Verdict
from evaluation.inference import mcnemar
from evaluation.outcomes import FIGURES, Figure


class LineDifference(ResponseModel):
    """A run minus the baseline over the common tasks, with its 95 % interval, for all budgets and runs together."""

    delta: float
    low: float
    high: float
    wins: int = Field(description="tasks that only this run solves")
    losses: int = Field(description="tasks that only the baseline solves")
    p: float = Field(description="exact two-sided p-value of McNemar's test, at this budget alone")
    beyond_chance: bool = Field(description="the verdict is better: the interval excludes 0")
    verdict: Verdict = Field(description="by the interval alone, without the caution of GET /compare")


class LineShare(ResponseModel):
    """Pass@First or Pass@All of a run at the budget, with its 95 % interval."""

    share: float
    low: float
    high: float
    difference: LineDifference | None = Field(description="to the baseline; null for the baseline itself")


@dataclass(frozen=True, slots=True)
class Line:
    """A run of an overlay at a budget. The first one is the baseline run and has no differences."""

    key: str
    label: str
    pass_first: LineShare
    pass_all: LineShare


def compute_lines(found: Overlaid, budget_s: float) -> list[Line]:
    """Each run at `budget_s` seconds."""
    return [
        Line(letter, label, *(_compute_share(found, figure, run, budget_s) for figure in FIGURES))
        for run, (letter, label) in enumerate(zip(found.letters, found.labels, strict=True))
    ]


def _compute_share(found: Overlaid, figure: Figure, run: int, budget_s: float) -> LineShare:
    low, high = found.compared.interval(figure, run, budget_s)
    difference = None
    if run:
        decision = found.compared.decide(figure, run, 0, budget_s)
        wins, losses = found.compared.wins_and_losses(figure, run, 0, budget_s)
        difference = LineDifference(
            delta=(wins - losses) / found.compared.n_tasks,
            low=decision.low,
            high=decision.high,
            wins=wins,
            losses=losses,
            p=mcnemar(wins, losses),
            beyond_chance=decision.verdict == "better",
            verdict=decision.verdict,
        )
    return LineShare(share=found.compared.share(figure, run, budget_s), low=low, high=high, difference=difference)
