"""Values over the steps of a training, on linear axes from 0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from app.ui.charts.axes import polyline, round_step
from app.ui.charts.parts import CHARACTER, LINE, Chart, Drawing, Label, Path, Tick, frame, placed, series_css
from app.ui.units import count, decimal, percent


@dataclass(frozen=True)
class Trace:
    """One line: `values[i]` after the i-th of the chart's steps, None where there is none."""

    label: str
    values: Sequence[float | None]


def training_chart(steps: Sequence[int], traces: Sequence[Trace], title: str, y_title: str, *, shares: bool) -> Chart:
    """The traces over the steps (at least one), which are in ascending order. `shares` are written in per cent."""
    last = steps[-1] or 1
    highest = max((v for trace in traces for v in trace.values if v is not None), default=0.0)
    y_step = round_step(max(highest, 1e-3), 5)
    top = y_step * max(math.ceil(highest / y_step), 1)
    room = 16 + CHARACTER * max(len(trace.label) for trace in traces)
    drawings = []
    for d in (frame("wide", 1200, 280, room), frame("narrow", 380, 240, 16)):
        across, up = d.right - d.left, d.bottom - d.top
        x_step = max(round_step(last, across / 90), 1)
        d.x_ticks = [Tick(_x(d, i * x_step / last), count(i * x_step)) for i in range(int(last / x_step) + 1)]
        d.y_ticks = [
            Tick(round(d.bottom - i * y_step / top * up, 1), f"{100 * i * y_step:g} %" if shares else f"{i * y_step:g}")
            for i in range(round(top / y_step) + 1)
        ]
        ends = []
        for i, trace in enumerate(traces):
            places = [
                None if v is None else (_x(d, step / last), round(d.bottom - max(v, 0) / top * up, 1))
                for step, v in zip(steps, trace.values, strict=True)
            ]
            known = [place for place in places if place is not None]
            d.lines.append(Path(polyline(places), f"curve {_css(i)}"))
            if len(known) == 1:  # a line of one point is invisible
                d.dots.append(Label(*known[0], trace.label, _css(i)))
            if known:
                ends.append(Label(d.right + 8, known[-1][1], trace.label, _css(i)))
        if d.name == "wide":  # on a phone the names are in the key below the chart
            d.labels = placed(ends, d.top, d.bottom, 3 * LINE)
        drawings.append(d)
    return Chart(
        title=title,
        description=f"{len(traces)} {'line' if len(traces) == 1 else 'lines'} over {count(last)} training steps; "
        "the table below holds the values.",
        x_title="Training steps",
        y_title=y_title,
        drawings=tuple(drawings),
        low=0.0,
        high=float(last),
        top=top,
        table_head=("Step", *(trace.label for trace in traces)),
        table=[
            (count(step), *(percent(t.values[i]) if shares else decimal(t.values[i], 3) for t in traces))
            for i, step in enumerate(steps)
        ],
        keys=[(trace.label, _css(i), "") for i, trace in enumerate(traces)],
    )


def _x(drawing: Drawing, share: float) -> float:
    return round(drawing.left + share * (drawing.right - drawing.left), 1)


def _css(trace: int) -> str:
    # Each line has a dash of its own as well, for those who cannot tell the colours apart.
    return f"{series_css(trace)} dash-{trace + 1}" if trace else series_css(trace)
