"""Values over the steps of a training, as points joined by lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.web.ui.charts.axes import lay_out, round_top
from app.web.ui.charts.chart import Chart
from app.web.ui.charts.parts import CHARACTER, Label, Path, name_ends, series_css
from app.web.ui.units import count, counted, decimal, percent

POSITIONS = 1000  # a drafter is compared at more positions than this
LONGEST_NAME = 33  # characters of a line's name that have room beside a chart


@dataclass(frozen=True)
class Line:
    """One line of a chart."""

    label: str
    xs: Sequence[float]  # ascending
    values: Sequence[float | None]  # at each of `xs`, None where there is none
    series: int = 0  # its colour
    dash: int = 1  # 1 is a solid line

    @property
    def css(self) -> str:
        """Classes for colour and dash."""
        return series_css(self.series) + (f" dash-{self.dash}" if self.dash > 1 else "")


def training_chart(lines: Sequence[Line], title: str, y_title: str, *, shares: bool) -> Chart:
    """The lines over the steps of a training (at least one), which they share. `shares` are written in per cent."""
    steps = lines[0].xs
    last = steps[-1] or 1
    layouts = lay_out(
        (280, 240), (_room(lines), 16), 0.0, last, round_top(max(_known(lines), default=0.0)), linear=True
    )
    for axes in layouts:
        axes.draw_x(axes.round_marks(), count)
        axes.draw_y(shares=shares)
        drawing, ends = axes.drawing, []
        for line in lines:
            xs = [axes.x(x) for x in line.xs]
            places = [None if v is None else (x, axes.y(max(v, 0.0))) for x, v in zip(xs, line.values, strict=True)]
            known = [place for place in places if place is not None]
            drawing.lines.append(Path(draw_polyline(places), f"curve {line.css}"))
            if len(known) == 1:  # a line of one point is invisible
                drawing.dots += [Label(x, y, line.label, series_css(line.series)) for x, y in known]
            if known:
                ends.append(Label(*known[-1], line.label, line.css))
        if drawing.name == "wide":  # on a phone the names are in the key below the chart
            name_ends(drawing, ends, LONGEST_NAME)
    return Chart(
        title=title,
        description=f"{counted(len(lines), 'line')} over {count(last)} training steps; the table below holds the "
        "values.",
        x_title="Training steps",
        y_title=y_title,
        layouts=layouts,
        table_head=("Step", *(line.label for line in lines)),
        table=[
            (count(step), *(percent(v, POSITIONS) if shares else decimal(v, 3) for v in values))
            for step, *values in zip(steps, *(line.values for line in lines), strict=True)
        ],
        keys=[(line.label, line.css, "") for line in lines],
    )


def draw_polyline(places: Sequence[tuple[float, float] | None]) -> str:
    """Path data through the places, with a gap where one is missing."""
    parts, pen = [], "M"
    for place in places:
        parts.append(f"{pen} {place[0]:g} {place[1]:g}" if place else "")
        pen = "L" if place else "M"
    return " ".join(filter(None, parts))


def _known(lines: Sequence[Line]) -> list[float]:
    return [value for line in lines for value in line.values if value is not None]


def _room(lines: Sequence[Line]) -> float:
    """Pixels for the names of the lines."""
    return 16 + CHARACTER * min(max(len(line.label) for line in lines), LONGEST_NAME)
