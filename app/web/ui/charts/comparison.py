"""Several configurations in one chart, over the tasks that all have graded, and the budget at which a page opens."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from app.web.ui.charts.chart import Chart, ChartCurve, draw_pass_curves
from evaluation import metrics
from evaluation.metrics import BUDGET_GRID

ChartFigure = Literal["both", "first", "all"]
FIGURES: dict[ChartFigure, str] = {"both": "Both figures", "first": "Pass@First", "all": "Pass@All"}
MAX_NAMED_LINES = 4  # lines whose curves of both figures can be told apart in one chart


@dataclass(frozen=True, slots=True)
class LineCurve:
    """The curve of one configuration. `series` gives it its colour and dash; `letter` is what a table calls it."""

    key: str  # identifies the line
    letter: str
    label: str
    series: int
    curve: metrics.Curve

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


def find_slider_budgets(lines: Sequence[LineCurve], drawn: Chart, budget_s: float) -> list[float]:
    """Round budgets that the chart covers, the ends of the lines, and the page's own."""
    ends = {line.curve.budgets[-1] for line in lines}
    return sorted({budget_s, *ends, *(budget for budget in BUDGET_GRID if drawn.low <= budget < max(ends))})


OPENING = (5.0, 10.0, 20.0, 50.0, 100.0, 200.0)
"""5 s is a wait that users of a coding assistant accept. The others are for slower machines."""


def choose_opening_budget(curves: Collection[metrics.Curve], longest_s: float) -> float:
    """Returns the first of OPENING within which a sample of any run passes, at most `longest_s`.

    `longest_s` is the budget up to which every run was given time: beyond it, a run has only a lower bound.
    """
    return next(
        (b for b in OPENING if b < longest_s and any(curve.get_shares_at(b)[1] > 0 for curve in curves)),
        longest_s,
    )
