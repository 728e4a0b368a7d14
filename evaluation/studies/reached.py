"""How much time a share of the tasks takes: the budget at which an arm first solves it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from evaluation.studies.arms import Scored

SHARES = (0.2, 0.4, 0.6, 0.8)
"""Values of Pass@First that people ask for."""


@dataclass(frozen=True, slots=True)
class Reached:
    """The smallest budget at which Pass@First is at least a share."""

    share: float
    budget_s: float | None  # seconds; None where no arm reaches the share within the study's budget
    arm: str | None  # the arm that reaches it there; of several the cheapest


def reached(scored: Scored) -> tuple[Reached, ...]:
    """The time that each of `SHARES` takes with the arm that reaches it first, read off the exact curves."""
    return tuple(_reached(scored, share) for share in SHARES)


def _reached(scored: Scored, share: float) -> Reached:
    found = min(_times(scored, share), default=None)
    return Reached(share, None, None) if found is None else Reached(share, found[0], scored.arms[found[2]].name)


def _times(scored: Scored, share: float) -> Iterator[tuple[float, float, int]]:
    """Of each arm that reaches the share: the budget, what the arm costs, and its number."""
    for number, arm in enumerate(scored.arms):
        curve = scored.curve(number)
        for budget_s, value in zip(curve.budgets, curve.pass_first, strict=True):
            if value >= share:
                yield budget_s, arm.cost_s, number
                break
