"""Pass@First and Pass@All of each run of an overlay at one budget, and the paired differences to the baseline run."""

from __future__ import annotations

from dataclasses import dataclass

from app.comparison.loading import Overlay
from evaluation.outcomes import FIGURES, Figure
from evaluation.significance import mcnemar


@dataclass(frozen=True, slots=True)
class BaselineDifference:
    """A run minus the baseline over the common tasks, with its 95 % interval, for all budgets and runs together.

    `wins` are tasks that only this run solves, `losses` those that only the baseline does. `p` is exact and two-sided,
    of McNemar's test at this budget alone. The difference is `beyond_chance` if the interval excludes 0.
    """

    delta: float
    low: float
    high: float
    wins: int
    losses: int
    p: float
    beyond_chance: bool


@dataclass(frozen=True, slots=True)
class RunShare:
    """Pass@First or Pass@All of a run at the budget, with its 95 % interval; no difference for the baseline itself."""

    share: float
    low: float
    high: float
    difference: BaselineDifference | None


@dataclass(frozen=True, slots=True)
class OverlayRunRow:
    """One run at the budget; `key` is its letter. The first one is the baseline run."""

    key: str
    label: str
    pass_first: RunShare
    pass_all: RunShare


def compute_run_rows(overlay: Overlay, budget_s: float) -> list[OverlayRunRow]:
    """Each run at `budget_s` seconds."""
    return [
        OverlayRunRow(letter, label, *(_compute_share(overlay, figure, place, budget_s) for figure in FIGURES))
        for place, (letter, label) in enumerate(zip(overlay.letters, overlay.labels, strict=True))
    ]


def _compute_share(overlay: Overlay, figure: Figure, run: int, budget_s: float) -> RunShare:
    low, high = overlay.paired_runs.interval(figure, run, budget_s)
    difference = None
    if run:
        decision = overlay.paired_runs.decide(figure, run, 0, budget_s)
        wins, losses = overlay.paired_runs.wins_and_losses(figure, run, 0, budget_s)
        difference = BaselineDifference(
            delta=(wins - losses) / overlay.paired_runs.n_tasks,
            low=decision.low,
            high=decision.high,
            wins=wins,
            losses=losses,
            p=mcnemar(wins, losses),
            beyond_chance=decision.verdict == "better",
        )
    return RunShare(share=overlay.paired_runs.share(figure, run, budget_s), low=low, high=high, difference=difference)
