"""The best arm at every budget: the upper envelope of the arms' curves."""

from __future__ import annotations

from dataclasses import dataclass

from evaluation.studies.arms import Scored
from evaluation.studies.leaders import Metric, equally_good, leader, values


@dataclass(frozen=True, slots=True)
class Change:
    """From this budget (seconds) on `arm` leads instead of `before` (None: none had passed)."""

    budget_s: float
    before: str | None
    arm: str | None


@dataclass(frozen=True, slots=True)
class Frontier:
    """Per budget (seconds) the leading arm (None while nothing has passed), its share, and whether some other arm
    is not significantly different."""

    budgets: tuple[float, ...]
    arms: tuple[str | None, ...]
    values: tuple[float, ...]
    too_close: tuple[bool, ...]
    changes: tuple[Change, ...]


def frontier(scored: Scored, metric: Metric) -> Frontier:
    """The frontier of Pass@First ("first") or Pass@All ("all")."""
    leaders = [leader(scored, metric, column) for column in range(len(scored.budgets))]
    names = [None if arm is None else scored.arms[arm].name for arm in leaders]
    shares = values(scored, metric).mean(axis=1).max(axis=0)
    close = [arm is not None and bool(equally_good(scored, metric, k, arm)) for k, arm in enumerate(leaders)]
    changes = [
        Change(budget, before, arm)
        for budget, before, arm in zip(scored.budgets, [None, *names], names, strict=False)
        if arm != before
    ]
    return Frontier(scored.budgets, tuple(names), tuple(shares.tolist()), tuple(close), tuple(changes))
