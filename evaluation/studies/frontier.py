"""The best arm at every budget: the upper envelope of the arms' curves."""

from __future__ import annotations

from dataclasses import dataclass

from evaluation.studies.leaders import PairBands, leader, values


@dataclass(frozen=True, slots=True)
class Change:
    """From this budget (seconds) on `arm` leads instead of `before` (None: none had passed)."""

    budget_s: float
    before: str | None
    arm: str | None


@dataclass(frozen=True, slots=True)
class Frontier:
    """Per budget (seconds) the leading arm (None while nothing has passed), its share, and whether it is not shown to
    be better than every other arm."""

    budgets: tuple[float, ...]
    arms: tuple[str | None, ...]
    values: tuple[float, ...]
    too_close: tuple[bool, ...]
    changes: tuple[Change, ...]


def frontier(bands: PairBands) -> Frontier:
    """The frontier of the figure that the bands are about, at the budgets of their study."""
    scored, metric = bands.scored, bands.metric
    leaders = [leader(scored, metric, column) for column in range(len(scored.budgets))]
    names = [None if arm is None else scored.arms[arm].name for arm in leaders]
    shares = values(scored, metric).mean(axis=1).max(axis=0)
    close = [
        arm is not None and not bands.leads_clearly(arm, budget)
        for arm, budget in zip(leaders, scored.budgets, strict=True)
    ]
    changes = [
        Change(budget, before, arm)
        for budget, before, arm in zip(scored.budgets, [None, *names], names, strict=False)
        if arm != before
    ]
    return Frontier(scored.budgets, tuple(names), tuple(shares.tolist()), tuple(close), tuple(changes))
