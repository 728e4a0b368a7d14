"""Values as points joined by lines: over the steps of a training, or the time of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.web.ui.charts.axes import Axes, lay_out, nice_top, polyline, round_top
from app.web.ui.charts.parts import CHARACTER, Chart, Label, Path, name_ends, series_css
from app.web.ui.units import count, counted, decimal, percent, seconds

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


@dataclass(frozen=True)
class Level:
    """One value: `at_s` seconds after the start, its `share`, and `label` in the table."""

    at_s: float
    share: float
    label: str


def training_chart(lines: Sequence[Line], title: str, y_title: str, *, shares: bool) -> Chart:
    """The lines over the steps of a training (at least one), which they share. `shares` are written in per cent."""
    steps = lines[0].xs
    last = steps[-1] or 1
    layouts = lay_out(
        (280, 240), (_room(lines), 16), 0.0, last, round_top(max(_known(lines), default=0.0)), linear=True
    )
    for axes in layouts:
        axes.draw_x(axes.round_marks(least=1), count)
        axes.draw_y(shares=shares)
        _draw(axes, lines)
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


def levels(items: Sequence[Level], title: str, heads: tuple[str, str], limit: float) -> Chart:
    """The values (at least one) over the time of a run, and the `limit` below which they should stay.

    `heads` are the table's: of the labels, and of the shares, which is also the title of the axis.
    """
    line = Line("", [item.at_s for item in items], [item.share for item in items])
    highest = max(item.share for item in items)
    top = max(nice_top(max(highest, limit)), highest)
    layouts = lay_out((240, 220), (24, 16), 0.0, max(line.xs) or 1.0, top, linear=True)
    for axes in layouts:
        axes.draw_x(axes.round_marks(), seconds)
        axes.draw_y(shares=True)
        _draw(axes, [line], [limit], every_dot=True)
    return Chart(
        title=title,
        description=f"{len(items)} values, the highest {percent(highest)}; the limit is {percent(limit)}.",
        x_title="Time since the run began",
        y_title=heads[1],
        layouts=layouts,
        table_head=(heads[0], "Since the run began", heads[1]),
        table=[(item.label, seconds(item.at_s), percent(item.share)) for item in items],
        keys=[],
    )


def _draw(axes: Axes, lines: Sequence[Line], across: Sequence[float] = (), *, every_dot: bool = False) -> None:
    """Draws the lines with their dots and names, and each value of `across` from edge to edge."""
    drawing, ends = axes.drawing, []
    for line in lines:
        xs = [axes.x(x) for x in line.xs]
        places = [None if v is None else (x, axes.y(max(v, 0.0))) for x, v in zip(xs, line.values, strict=True)]
        known = [place for place in places if place is not None]
        drawing.lines.append(Path(polyline(places), f"curve {line.css}"))
        if every_dot or len(known) == 1:  # a line of one point is invisible
            drawing.dots += [Label(x, y, line.label, series_css(line.series)) for x, y in known]
        if known and line.label:
            ends.append(Label(*known[-1], line.label, line.css))
    for value in across:
        drawing.lines.append(Path(f"M {drawing.left:g} {axes.y(value):g} H {drawing.right:g}", "front"))
    if drawing.name == "wide":  # on a phone the names are in the key below the chart
        name_ends(drawing, ends, LONGEST_NAME)


def _known(lines: Sequence[Line]) -> list[float]:
    return [value for line in lines for value in line.values if value is not None]


def _room(lines: Sequence[Line]) -> float:
    """Pixels for the names of the lines."""
    return 16 + CHARACTER * min(max(len(line.label) for line in lines), LONGEST_NAME)
