"""A chart as templates draw it, its curves, and the values shown at the pointer or with the arrow keys."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.web.ui.charts.axes import Axes
from app.web.ui.charts.parts import Drawing, get_series_css
from app.web.ui.units import format_exact, format_exact_seconds, format_percent, format_share
from evaluation.metrics import BUDGET_GRID


@dataclass(frozen=True)
class ChartReadout:
    """The lines of a chart, read at round budgets from `low` to `high` seconds, where lines end, and at `budget`.

    Between those nothing is read, so that a value is never shown beside a budget at which it does not hold.
    """

    curves: Sequence[ChartCurve]
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
        return " ".join(map(format_exact, self.budgets))

    @property
    def position(self) -> int:
        """Where `budget` is among the budgets."""
        return self.budgets.index(self.budget)

    @property
    def budget_label(self) -> str:
        """The page's budget as read."""
        return format_exact_seconds(self.budget)

    def values(self, curve: ChartCurve) -> list[str]:
        """The values of a line at the budgets, up to where it ends."""
        return [format_share(curve.at(budget), self.n_tasks) for budget in self.budgets if budget <= curve.budgets[-1]]

    def format_current(self, curve: ChartCurve) -> str:
        """The value of a line at the page's budget with its unit."""
        return format_percent(curve.at(self.budget), self.n_tasks) if self.budget <= curve.budgets[-1] else "–"


@dataclass(frozen=True)
class Chart:
    """A chart ready for its macro: two drawings, a title, one sentence of description and the table below it."""

    title: str
    description: str
    x_title: str
    y_title: str
    layouts: tuple[Axes, Axes]
    table_head: tuple[str, ...]
    table: list[tuple[str, ...]]
    reading: ChartReadout

    @property
    def drawings(self) -> tuple[Drawing, ...]:
        """The wide and the narrow one."""
        return tuple(axes.drawing for axes in self.layouts)


@dataclass(frozen=True)
class ChartCurve:
    """Quality of one run as a function of the budget: a step function that ends at its last budget."""

    label: str
    budgets: Sequence[float]
    values: Sequence[float]  # `values[i]` holds from `budgets[i]` seconds on
    series: int = 0
    kind: str = "first"  # `first` (solid) or `all` (dashed)
    low: Sequence[float] | None = None  # of the interval, where there is one
    high: Sequence[float] | None = None  # of the interval
    key: str = ""  # identifies the run
    name: str = ""  # in the list of values, where there is room; empty: the label

    @property
    def css(self) -> str:
        """Classes for colour and dash."""
        return get_series_css(self.series)

    def at(self, budget: float) -> float:
        """Value at `budget` seconds, 0 before the first point."""
        point = bisect_right(self.budgets, budget) - 1
        return self.values[point] if point >= 0 else 0.0

    def between(self, low: float, high: float) -> ChartCurve:
        """The part from `low` seconds to `high`, or to where the curve ends if that is before."""
        high = min(high, self.budgets[-1])
        start, stop = bisect_right(self.budgets, low), bisect_left(self.budgets, high)

        def part(values: Sequence[float]) -> list[float]:
            at_low = values[start - 1] if start else 0.0
            at_high = values[bisect_right(self.budgets, high) - 1]
            return [at_low, *values[start:stop], at_high]

        return replace(
            self,
            budgets=[min(low, high), *self.budgets[start:stop], high],
            values=part(self.values),
            low=self.low and part(self.low),
            high=self.high and part(self.high),
        )
