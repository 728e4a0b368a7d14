"""Quality of one run over the budget."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.web.ui.charts.parts import series_css


@dataclass(frozen=True)
class Curve:
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
        return series_css(self.series)

    def at(self, budget: float) -> float:
        """Value at `budget` seconds, 0 before the first point."""
        point = bisect_right(self.budgets, budget) - 1
        return self.values[point] if point >= 0 else 0.0

    def between(self, low: float, high: float) -> Curve:
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
