"""The verdicts about runs of an overlay, by the rules of evaluation/decisions.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.overlay.loading import Overlaid
from evaluation.decisions import MARGIN, PairBand
from evaluation.inference import ALPHA


@dataclass(frozen=True, slots=True)
class Terms:
    """How two runs are judged."""

    in_turn: bool = False  # as arms of one study
    n_arms: int = 2  # configurations among which the reader chooses
    alpha: float = ALPHA
    margin: float = MARGIN  # a share of the tasks


def decide_pair(
    found: Overlaid, terms: Terms, pair: tuple[int, int] = (1, 0), stretch: Sequence[float] | None = None
) -> tuple[PairBand, PairBand]:
    """The bands of Pass@First and Pass@All of one run of the overlay against another, by default the second against the
    first. With `stretch`, the times of each of the two are multiplied by its factor."""
    end_s = found.longest_s
    budgets, *figures = found.measured.solved_at_changes(pair, end_s, stretch)
    first, every = (
        PairBand(budgets.tolist(), solved[0], solved[1], end_s, terms.n_arms, terms.alpha) for solved in figures
    )
    return first, every
