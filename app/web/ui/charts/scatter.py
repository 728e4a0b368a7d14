"""Quality against latency, and the front of runs that no other beats on both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.web.ui.charts.axes import WIDE, lay_out, nice_top, time_range
from app.web.ui.charts.parts import CHARACTER, LINE, Chart, Drawing, Label, Path, series_css, shortened
from app.web.ui.units import counted, percent, seconds

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


def scatter(
    items: Sequence[Point], title: str, x_title: str, n_tasks: int, *, budget: float, width: float = WIDE
) -> Chart:
    """The plane at `budget` seconds, over `n_tasks`.

    Its frame does not depend on the budget, so that a slider moves points only.
    """
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
        drawing.labels = _apart(drawing)
    return Chart(
        title=title,
        description=f"{counted(len(items), 'run')} at a budget of {seconds(budget)}; "
        f"on the front, beaten by none in both: {', '.join(p.label for p in front) or 'none'}.",
        x_title=x_title,
        y_title="Share of tasks",
        layouts=layouts,
        table_head=("Run", x_title, "Share of tasks"),
        table=[(p.label, seconds(p.x), percent(p.y, n_tasks)) for p in items],
        keys=[(p.label, p.css, p.key) for p in items],
    )


def pareto(items: Sequence[Point]) -> list[Point]:
    """The points that no other beats in both latency and quality, from fast to slow."""
    front: list[Point] = []
    for p in sorted(items, key=lambda p: (p.x, -p.y)):
        if p.y > (front[-1].y if front else 0.0):
            front.append(p)
    return front


def _apart(drawing: Drawing) -> list[Label]:
    """The labels of a drawing as near to their places as they can stand without covering an earlier one."""
    taken: list[Label] = []
    for label in drawing.labels:
        near = [one for one in taken if _overlap_across(label, one)]
        tries = [label.y, *(one.y + shift for one in near for shift in (-LINE, LINE))]
        free = [y for y in tries if drawing.top <= y <= drawing.bottom and all(abs(y - o.y) > LINE - 0.1 for o in near)]
        nearest = min((abs(y - label.y), y) for y in free or [label.y])[1]
        taken.append(replace(label, y=round(nearest, 1)))
    return taken


def _overlap_across(one: Label, other: Label) -> bool:
    (a, b), (c, d) = _extent(one), _extent(other)
    return a < d and c < b


def _extent(label: Label) -> tuple[float, float]:
    width = len(label.text) * CHARACTER
    return (label.x - width, label.x) if label.anchor == "end" else (label.x, label.x + width)
