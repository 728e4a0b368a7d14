"""Values against requests per second: points joined by lines, on a logarithmic axis of rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.ui.charts.axes import nice_top, polyline, round_step
from app.ui.charts.parts import CHARACTER, LINE, Chart, Drawing, Label, Path, Tick, frame, placed, series_css, shortened
from app.ui.units import percent

MOST_ROOM = 240.0  # pixels for the names of the lines
DASHED = " dash-2"


@dataclass(frozen=True)
class RateLine:
    """One line of a chart over rates."""

    label: str
    rates: Sequence[float]  # requests per second, ascending
    values: Sequence[float | None]  # at each rate, None where there is none
    series: int = 0  # its colour
    dashed: bool = False  # sets a second figure of the same service apart
    low: Sequence[float] | None = None  # of the interval, where there is one
    high: Sequence[float] | None = None  # of the interval
    idle: float | None = None  # the value of the idle service

    @property
    def css(self) -> str:
        """Classes for colour and dash."""
        return series_css(self.series) + (DASHED if self.dashed else "")


def rate_chart(
    lines: Sequence[RateLine],
    title: str,
    y_title: str,
    *,
    shares: bool = False,
    show: Callable[[float | None], str] = percent,
    level: float | None = None,
) -> Chart:
    """The lines over their rates, 0 at the bottom, a thin dashed line where each service is idle.

    `shares` makes the axis one of per cent; `show` writes a value in the table. `level` is a value to draw across.
    """
    rates = sorted({rate for line in lines for rate in line.rates})
    low, high = (rates[0], rates[-1]) if len(rates) > 1 else (rates[0] / 2, rates[0] * 2)
    across = [value for value in (level, *(line.idle for line in lines)) if value is not None]
    drawn = [v for line in lines for v in (*line.values, *(line.high or ())) if v is not None]
    highest = max([*drawn, *across], default=0.0)
    step = round_step(max(highest, 1e-3), 5)
    top = nice_top(highest) if shares else step * max(math.ceil(highest / step), 1)
    room = min(16 + CHARACTER * max(len(line.label) for line in lines), MOST_ROOM)
    drawings = []
    for drawing in (frame("wide", 1200, 320, room), frame("narrow", 380, 260, 16)):
        _draw_axes(drawing, rates, low, high, top, shares)
        ends = []
        for line in lines:
            xs = [_x(drawing, rate, low, high) for rate in line.rates]
            places = [
                None if value is None else (x, _y(drawing, value, top))
                for x, value in zip(xs, line.values, strict=True)
            ]
            if line.low is not None and line.high is not None and len(xs) > 1:
                above = [(x, _y(drawing, value, top)) for x, value in zip(xs, line.high, strict=True)]
                below = [(x, _y(drawing, value, top)) for x, value in zip(xs, line.low, strict=True)]
                drawing.bands.append(
                    Path(f"{polyline([*above, *reversed(below)])} Z", f"band {series_css(line.series)}")
                )
            drawing.lines.append(Path(polyline(places), f"curve {line.css}"))
            known = [place for place in places if place is not None]
            drawing.dots += [Label(x, y, line.label, series_css(line.series)) for x, y in known]
            if known:
                ends.append(Label(drawing.right + 12, known[-1][1], line.label, line.css))
        for value in across:
            y = _y(drawing, value, top)
            drawing.lines.append(Path(f"M {drawing.left:g} {y:g} L {drawing.right:g} {y:g}", "front"))
        if drawing.name == "wide":  # on a phone the names are in the key below the chart
            short = [shortened(label, int((room - 16) / CHARACTER)) for label in ends]
            drawing.labels = placed(short, drawing.top, drawing.bottom, 4 * LINE)
        drawings.append(drawing)
    return Chart(
        title=title,
        description=f"{len(lines)} {'line' if len(lines) == 1 else 'lines'} from {low:g} to {high:g} requests per "
        "second on a logarithmic axis; the table below holds the values.",
        x_title="Requests per second",
        y_title=y_title,
        drawings=tuple(drawings),
        low=low,
        high=high,
        top=top,
        table_head=("Requests per second", *(line.label for line in lines)),
        table=[
            ("idle", *(show(line.idle) for line in lines)),
            *((f"{rate:g}", *(show(_at(line, rate)) for line in lines)) for rate in rates),
        ],
        keys=[(line.label, line.css, "") for line in lines],
    )


def _draw_axes(drawing: Drawing, rates: Sequence[float], low: float, high: float, top: float, shares: bool) -> None:
    least, last = (54 if drawing.name == "wide" else 40), -math.inf
    for rate in rates:
        x = _x(drawing, rate, low, high)
        if x - last >= least:
            drawing.x_ticks.append(Tick(x, f"{rate:g}"))
            last = x
    step = round_step(top, 5)
    for i in range(round(top / step) + 1):
        label = f"{100 * i * step:g} %" if shares else f"{i * step:g}"
        drawing.y_ticks.append(Tick(_y(drawing, i * step, top), label))


def _x(drawing: Drawing, rate: float, low: float, high: float) -> float:
    share = math.log(rate / low) / math.log(high / low)
    return round(drawing.left + share * (drawing.right - drawing.left), 1)


def _y(drawing: Drawing, value: float, top: float) -> float:
    return round(drawing.bottom - min(value / top, 1.0) * (drawing.bottom - drawing.top), 1)


def _at(line: RateLine, rate: float) -> float | None:
    return line.values[line.rates.index(rate)] if rate in line.rates else None
