"""Pass@First and Pass@All of each run of an overlay at one budget, and the paired differences to the baseline run."""

from __future__ import annotations

import uuid

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


class LineDocument(ResponseModel):
    """One run at the budget and as a curve up to its own end. The first one is the baseline run.

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


def compute_lines(found: Overlaid, budget_s: float) -> list[LineDocument]:
    """Each run at `budget_s` seconds, with its curve, which has a point there."""
    lines = []
    for place, (run, letter, label) in enumerate(zip(found.runs, found.letters, found.labels, strict=True)):
        curve = found.compared.outcomes.curve(place, run.budget_s)
        budgets = sorted({*curve.budgets, budget_s})
        first, every = zip(*map(curve.at, budgets), strict=True)
        pass_first, pass_all = (_compute_share(found, figure, place, budget_s) for figure in FIGURES)
        lines.append(
            LineDocument(
                key=letter,
                label=label,
                runs=[run.id],
                pass_first=pass_first,
                pass_all=pass_all,
                budgets=budgets,
                curve_first=list(first),
                curve_all=list(every),
            )
        )
    return lines


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
