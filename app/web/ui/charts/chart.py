"""Quality as a function of the budget, as templates draw it, and the values shown at the pointer or with arrow keys.

Several configurations stand in one chart over the tasks that all have graded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from app.web.ui.charts.parts import LINE, ROUND, Drawing, Label, Path, get_series_css
from app.web.ui.units import (
    format_count,
    format_exact,
    format_exact_seconds,
    format_percent,
    format_seconds,
    format_share,
)
from evaluation.metrics import BUDGET_GRID, Curve

WIDE = 1200.0
"""Width in pixels of the wide drawing of a chart that is as wide as the page."""
HALF = 680.0
"""The same for a chart that stands beside the values: drawn wider, its type would shrink."""
NARROW = 380.0
BEFORE_RISE = 0.5  # of the time of the first rise: where an axis begins
CHARACTER = 7  # pixels of a label
FRAME = 70  # pixels of a drawing above and below its curves
ChartFigure = Literal["both", "first", "all"]
FIGURES: dict[ChartFigure, str] = {"both": "Both figures", "first": "Pass@First", "all": "Pass@All"}
MAX_NAMED_LINES = 4  # lines whose curves of both figures can be told apart in one chart
OPENING = (5.0, 10.0, 20.0, 50.0, 100.0, 200.0)
"""5 s is a wait that users of a coding assistant accept. The others are for slower machines."""
_SHARES = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)


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

    @property
    def start(self) -> float:
        """Seconds just before the curve leaves 0."""
        rise = next((budget for budget, value in zip(self.budgets, self.values, strict=True) if value > 0), None)
        return self.budgets[-1] / 100 if rise is None else BEFORE_RISE * rise

    def at(self, budget: float) -> float:
        """Value at `budget` seconds, 0 before the first point."""
        point = bisect_right(self.budgets, budget) - 1
        return self.values[point] if point >= 0 else 0.0


@dataclass(frozen=True)
class Chart:
    """A chart ready for its macro: a wide and a narrow drawing, and its lines as they are read.

    They are read at round budgets that it shows, where lines end, and at `budget`. Between those nothing is read, so
    that a value is never shown beside a budget at which it does not hold.
    """

    title: str
    curves: Sequence[ChartCurve]
    drawings: tuple[Drawing, Drawing]
    budget: float  # of the page; the chart shows its values at rest
    n_tasks: int  # that the shares are of

    @property
    def low(self) -> float:
        """Seconds at the left edge."""
        return self.drawings[0].low

    @property
    def high(self) -> float:
        """Seconds at the right edge."""
        return self.drawings[0].high

    @property
    def description(self) -> str:
        """For those who do not see it."""
        n, low, high = format_count(len(self.curves), "curve"), format_seconds(self.low), format_seconds(self.high)
        return f"{n} from {low} to {high} on a logarithmic axis; the table below holds the values."

    @property
    def table(self) -> list[tuple[str, ...]]:
        """The values at the budgets of the axis, and at the end."""
        end = max((curve.budgets[-1] for curve in self.curves), default=self.high)
        return [
            (format_seconds(b), *(format_percent(curve.at(b), self.n_tasks) for curve in self.curves))
            for b in (*(b for b in ROUND if self.low <= b < end * 0.999), end)
        ]

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


def draw_pass_curves(
    curves: Sequence[ChartCurve], title: str, n_tasks: int, *, budget: float, width: float = WIDE
) -> Chart:
    """Pass against budget, over `n_tasks`, 0 at the bottom, with a cursor at `budget` seconds.

    It begins just before the first curve rises. The wide drawing is `width` pixels wide, with room for the labels.
    """
    is_whole = width == WIDE
    low = min((curve.start for curve in curves if curve.start > 0), default=0.1)
    high = max([curve.budgets[-1] for curve in curves] + [2 * low])
    top = max((max(curve.high or curve.values) for curve in curves), default=0.0)
    most = next((share for share in _SHARES if top <= share * 0.97), 1.0)
    max_characters = 32 if is_whole else 24
    label_room = 12 + CHARACTER * min(max((len(c.label) for c in curves), default=0), max_characters)
    height = max(400 if is_whole else 280, FRAME + LINE * len(curves))
    wide = Drawing("wide", width, height, label_room, low, high, most)
    narrow = Drawing("narrow", NARROW, 300, 16, low, high, most)
    for drawing in (wide, narrow):
        drawing.draw_ticks(few=not is_whole)
        drawing.cursor = drawing.x(budget)
        for c in curves:
            if c.low is not None and c.high is not None:
                drawing.bands.append(Path(drawing.format_area(c.budgets, c.low, c.high), f"band {c.css}"))
            drawing.lines.append(Path(drawing.format_steps(c.budgets, c.values), f"curve {c.kind} {c.css}", c.key))
    # On a phone the names are in the list below the chart.
    ends = [Label(wide.x(c.budgets[-1]), wide.y(c.values[-1]), c.label, c.css, key=c.key) for c in curves]
    wide.draw_names(ends, max_characters)
    return Chart(title, curves, (wide, narrow), budget, n_tasks)


@dataclass(frozen=True, slots=True)
class LineCurve:
    """The curve of one configuration. `series` gives it its colour and dash; `letter` is what a table calls it."""

    key: str  # identifies the line
    letter: str
    label: str
    series: int
    curve: Curve

    @property
    def name(self) -> str:
        """The letter, if there is one, and the label."""
        return f"{self.letter} {self.label}".strip()


def choose_figure(lines: Sequence[LineCurve]) -> ChartFigure:
    """Both figures while their curves can be told apart."""
    return "both" if len(lines) <= MAX_NAMED_LINES else "first"


def draw_comparison(lines: Sequence[LineCurve], figure: ChartFigure, n_tasks: int, budget_s: float) -> Chart:
    """The curves over `n_tasks` in one chart, with a cursor at the budget."""
    drawn = []
    for line in lines:
        # Names would not find room beside many curves; the values below the chart say whose letter it is.
        label = line.name if len(lines) <= MAX_NAMED_LINES else line.letter or line.label
        ends = line.curve.budgets
        shares = line.curve.pass_all if figure == "all" else line.curve.pass_first
        drawn.append(ChartCurve(label, ends, shares, line.series, "first", key=line.key, name=line.name))
        if figure == "both":
            label, name = f"{line.letter or line.label} All", f"{line.name}, Pass@All"
            drawn.append(ChartCurve(label, ends, line.curve.pass_all, line.series, "all", key=line.key, name=name))
    words = "Pass@First and Pass@All" if figure == "both" else FIGURES[figure]
    return draw_pass_curves(drawn, f"{words} against the budget", n_tasks, budget=budget_s)


def choose_opening_budget(curves: Collection[Curve], longest_s: float) -> float:
    """Returns the first of OPENING within which a sample of any run passes, at most `longest_s`.

    `longest_s` is the budget up to which every run was given time: beyond it, a run has only a lower bound.
    """
    return next(
        (b for b in OPENING if b < longest_s and any(curve.get_shares_at(b)[1] > 0 for curve in curves)),
        longest_s,
    )
