"""What a pointer or an arrow key reads off a chart with a budget axis: every line at each of some budgets, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.web.ui.charts.curve import Curve
from app.web.ui.units import exact, exact_seconds, per_cent, percent
from evaluation.metrics import BUDGET_GRID


@dataclass(frozen=True)
class Reading:
    """The lines of a chart, read at round budgets from `low` to `high` seconds, where lines end, and at `budget`.

    Between those nothing is read, so that a value is never shown beside a budget at which it does not hold.
    """

    curves: Sequence[Curve]
    low: float
    high: float
    budget: float  # of the page; the chart shows its values at rest
    n_tasks: int  # that the shares are of

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

    def values(self, curve: Curve) -> list[str]:
        """The values of a line at the budgets, up to where it ends."""
        return [per_cent(curve.at(budget), self.n_tasks) for budget in self.budgets if budget <= curve.budgets[-1]]

    def now(self, curve: Curve) -> str:
        """The value of a line at the page's budget with its unit."""
        return percent(curve.at(self.budget), self.n_tasks) if self.budget <= curve.budgets[-1] else "–"
