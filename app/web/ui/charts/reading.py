"""What a pointer or an arrow key reads off a chart with a budget axis: every line at each of some budgets, exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from app.web.ui.units import exact, exact_seconds
from evaluation.metrics import BUDGET_GRID


class Line(Protocol):
    """A step function of the budget in seconds."""

    @property
    def budgets(self) -> Sequence[float]:
        """The budgets at which it steps, and where it ends."""

    def at(self, budget: float) -> float:
        """Its value at a budget."""


@dataclass(frozen=True)
class Reading:
    """The lines of a chart, read at round budgets from `low` to `high` seconds, where lines end, and at `budget`.

    Between those nothing is read, so that a value is never shown beside a budget at which it does not hold.
    """

    curves: Sequence[Line]
    low: float
    high: float
    budget: float  # of the page; the chart shows its values at rest
    say: Callable[[float], str]  # a value without its unit
    unit: str = "%"

    @property
    def budgets(self) -> list[float]:
        """The budgets in seconds that can be read, ascending."""
        ends = (curve.budgets[-1] for curve in self.curves)
        return sorted({self.budget, *(b for b in (*BUDGET_GRID, *ends) if self.low <= b <= self.high)})

    @property
    def grid(self) -> str:
        """The same for the script."""
        return " ".join(map(exact, self.budgets))

    @property
    def place(self) -> int:
        """Where `budget` is among the budgets."""
        return self.budgets.index(self.budget)

    @property
    def at(self) -> str:
        """The page's budget as read."""
        return exact_seconds(self.budget)

    def values(self, curve: Line) -> list[str]:
        """The values of a line at the budgets, up to where it ends."""
        return [self.say(curve.at(budget)) for budget in self.budgets if budget <= curve.budgets[-1]]

    def now(self, curve: Line) -> str:
        """The value of a line at the page's budget with its unit."""
        return f"{self.say(curve.at(self.budget))} {self.unit}" if self.budget <= curve.budgets[-1] else "–"
