"""Quality against latency, and the front of runs that no other beats on both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.ui.charts.axes import WIDE, lay_out, nice_top, time_range
from app.ui.charts.parts import LINE, Chart, Label, Path, placed, series_css, shortened
from app.ui.units import counted, percent, seconds

ABOVE = 10  # pixels by which a label stands above its point, clear of the front


@dataclass(frozen=True)
class Point:
    """One run in the latency-quality plane: `x` seconds, `y` a share of tasks now, `best` the most it can become."""

    label: str
    x: float
    y: float
    best: float
    series: int = 0
    key: str = ""

    @property
    def css(self) -> str:
        """Classes for colour and dash."""
        return series_css(self.series)


def scatter(items: Sequence[Point], title: str, x_title: str, budget: float, width: float = WIDE) -> Chart:
    """The plane at `budget` seconds. Its frame does not depend on the budget, so that a slider moves points only."""
    low, high = time_range([p.x * margin for p in items for margin in (0.8, 1.25)])
    top = nice_top(max((p.best for p in items), default=0.0))
    front = pareto(items)
    layouts = lay_out((400 if width == WIDE else 280, 300), (40, 16), low, high, top, width=width)
    for axes in layouts:
        axes.draw_times()
        axes.draw_y()
        drawing = axes.drawing
        xs = [*(axes.x(p.x) for p in front), drawing.right]
        drawing.lines.append(Path(axes.steps(xs, [p.y for p in [*front, *front[-1:]]]) if front else "", "front"))
        for p in items:
            x, y = axes.x(p.x), axes.y(p.y)
            drawing.dots.append(Label(x, y, p.label, p.css, key=p.key))
            if drawing.name == "wide":
                anchor = "end" if x > drawing.right - 160 else "start"
                at = x + (-11 if anchor == "end" else 11)
                drawing.labels.append(shortened(Label(at, y - ABOVE, p.label, p.css, anchor, p.key), 26))
        drawing.labels = placed(drawing.labels, drawing.top, drawing.bottom, LINE)
    return Chart(
        title=title,
        description=f"{counted(len(items), 'run')} at a budget of {seconds(budget)}; "
        f"on the front, beaten by none in both: {', '.join(p.label for p in front) or 'none'}.",
        x_title=x_title,
        y_title="Share of tasks",
        layouts=layouts,
        table_head=("Run", x_title, "Share of tasks"),
        table=[(p.label, seconds(p.x), percent(p.y)) for p in items],
        keys=[(p.label, p.css, p.key) for p in items],
    )


def pareto(items: Sequence[Point]) -> list[Point]:
    """The points that no other beats in both latency and quality, from fast to slow."""
    front: list[Point] = []
    for p in sorted(items, key=lambda p: (p.x, -p.y)):
        if p.y > (front[-1].y if front else 0.0):
            front.append(p)
    return front
