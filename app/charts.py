"""Geometry of the charts: data in, coordinates out. The SVG itself is in `templates/macros/charts.html`.

Every chart is laid out twice, wide and narrow, because type inside a scaled SVG would shrink with it on a phone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

SERIES = 6  # distinct colours in charts.css; later series repeat them with another dash


@dataclass(frozen=True)
class Curve:
    """Quality of one run as a function of the budget: a step function, `values[i]` at `budgets[i]` seconds.

    `kind` is `first` (solid) or `all` (dashed). `low` and `high` bound the interval where there is one.
    """

    label: str
    budgets: Sequence[float]
    values: Sequence[float]
    series: int = 0
    kind: str = "first"
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    href: str | None = None

    @property
    def css(self) -> str:
        """Classes for colour and dash."""
        return series_css(self.series)

    def at(self, budget: float) -> float:
        """Value at `budget` seconds; 0 before the first point."""
        return value_at(self.budgets, self.values, budget)


@dataclass(frozen=True)
class Point:
    """One run in the latency-quality plane: `x` seconds, `y` a share of tasks."""

    label: str
    x: float
    y: float
    series: int = 0
    href: str | None = None

    @property
    def css(self) -> str:
        """Classes for colour and dash."""
        return series_css(self.series)


@dataclass(frozen=True)
class Tick:
    """A grid line: `at` in pixels, `label` as read."""

    at: float
    label: str


@dataclass(frozen=True)
class Label:
    """Text at the end of a curve, or beside a point."""

    x: float
    y: float
    text: str
    css: str
    anchor: str = "start"
    href: str | None = None


@dataclass(frozen=True)
class Path:
    """One drawn line or area; `d` is SVG path data."""

    d: str
    css: str


@dataclass
class Drawing:
    """One layout of a chart, in pixels of its view box."""

    name: str
    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    x_ticks: list[Tick] = field(default_factory=list)
    y_ticks: list[Tick] = field(default_factory=list)
    bands: list[Path] = field(default_factory=list)
    lines: list[Path] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    dots: list[Label] = field(default_factory=list)
    cursor: float | None = None


@dataclass(frozen=True)
class Chart:
    """A chart ready for its macro: two drawings, a title, one sentence of description and the table behind it."""

    title: str
    description: str
    x_title: str
    y_title: str
    drawings: tuple[Drawing, ...]
    low: float
    high: float
    table_head: tuple[str, ...]
    table: list[tuple[str, ...]]
    keys: list[tuple[str, str]]


def series_css(series: int) -> str:
    """Colour class of the series, with another dash each time the colours have been used up."""
    dash = series // SERIES + 1
    return f"series-{series % SERIES + 1}" + (f" dash-{min(dash, 3)}" if dash > 1 else "")


def value_at(budgets: Sequence[float], values: Sequence[float], budget: float) -> float:
    """Value of the step function at `budget`: that of the last point not after it, 0 before the first."""
    reached = [value for at, value in zip(budgets, values, strict=True) if at <= budget * (1 + 1e-9)]
    return reached[-1] if reached else 0.0


def pass_curves(curves: Sequence[Curve], title: str, *, budget: float | None = None, label_room: float = 96) -> Chart:
    """Pass against budget on a logarithmic axis, 0 at the bottom; `budget` seconds get a cursor."""
    low, high = _time_range([b for c in curves for b in _from_first_rise(c)])
    curves = [_clipped(c, low) for c in curves]
    top = _nice_top(max((max(c.high or c.values, default=0.0) for c in curves), default=0.0))
    drawings = []
    for drawing in (_frame("wide", 1200, 400, label_room), _frame("narrow", 380, 300, min(label_room, 76))):
        _log_ticks(drawing, low, high)
        _share_ticks(drawing, top)
        ends = []
        for curve in curves:
            xs = [_log_x(drawing, b, low, high) for b in curve.budgets]
            if not xs:
                continue
            if curve.low is not None and curve.high is not None:
                area = (
                    _steps(drawing, xs, curve.high, top)
                    + " L "
                    + _steps(drawing, xs, curve.low, top, backwards=True)[2:]
                    + " Z"
                )
                drawing.bands.append(Path(area, f"band {curve.css}"))
            drawing.lines.append(Path(_steps(drawing, xs, curve.values, top), f"curve {curve.kind} {curve.css}"))
            y = _y(drawing, curve.values[-1], top)
            ends.append(Label(xs[-1] + 8, y, curve.label, curve.css, href=curve.href))
        # On a phone long names go to the key below the chart.
        if drawing.name == "wide" or all(len(c.label) <= 10 for c in curves):
            room = 20 if drawing.name == "wide" else 10
            drawing.labels = _apart([_shortened(label, room) for label in ends], drawing.top, drawing.bottom)
        if budget is not None:
            drawing.cursor = _log_x(drawing, min(max(budget, low), high), low, high)
        drawings.append(drawing)
    picks = _table_budgets(low, high)
    return Chart(
        title=title,
        description=f"{len(curves)} {'curve' if len(curves) == 1 else 'curves'} from {seconds(low)} to {seconds(high)} "
        "on a logarithmic axis; the table below holds the values.",
        x_title="Budget per task",
        y_title="Share of tasks",
        drawings=tuple(drawings),
        low=low,
        high=high,
        table_head=("Budget", *(c.label for c in curves)),
        table=[(seconds(b), *(percent(c.at(b)) for c in curves)) for b in picks],
        keys=[(c.label, c.css) for c in curves],
    )


def scatter(points: Sequence[Point], title: str, x_title: str) -> Chart:
    """Quality against latency on a logarithmic axis, with the front of runs that no other beats on both."""
    low, high = _time_range([p.x * margin for p in points for margin in (0.8, 1.25)])
    top = _nice_top(max((p.y for p in points), default=0.0))
    front = pareto(points)
    drawings = []
    for drawing in (_frame("wide", 1200, 400, 40), _frame("narrow", 380, 300, 16)):
        _log_ticks(drawing, low, high)
        _share_ticks(drawing, top)
        if front:
            xs = [_log_x(drawing, p.x, low, high) for p in front]
            d = _steps(drawing, [*xs, drawing.right], [*(p.y for p in front), front[-1].y], top)
            drawing.lines.append(Path(d, "front"))
        for p in points:
            x, y = _log_x(drawing, p.x, low, high), _y(drawing, p.y, top)
            drawing.dots.append(Label(x, y, p.label, p.css, href=p.href))
            if drawing.name == "wide":
                anchor = "end" if x > drawing.right - 160 else "start"
                drawing.labels.append(
                    _shortened(Label(x + (-11 if anchor == "end" else 11), y, p.label, p.css, anchor, p.href), 26)
                )
        drawing.labels = _apart(drawing.labels, drawing.top, drawing.bottom)
        drawings.append(drawing)
    return Chart(
        title=title,
        description=f"{len(points)} runs; {len(front)} on the front: {', '.join(p.label for p in front)}.",
        x_title=x_title,
        y_title="Share of tasks",
        drawings=tuple(drawings),
        low=low,
        high=high,
        table_head=("Run", x_title, "Share of tasks"),
        table=[(p.label, seconds(p.x), percent(p.y)) for p in points],
        keys=[(p.label, p.css) for p in points],
    )


@dataclass(frozen=True)
class Life:
    """One sample on a timeline, in pixels: bar from `x` to `end`, first token at `first`."""

    label: str
    css: str
    letter: str
    y: float
    first: float
    end: float
    text: str


@dataclass(frozen=True)
class Timeline:
    """Bars of the samples of a task on its clock, laid out wide and narrow."""

    drawings: tuple[tuple[Drawing, list[Life]], ...]


def timeline(lives: Sequence[tuple[str, Any, float, float]], budget: float, wall: float) -> Timeline:
    """(label, verdict sign, first token in seconds, end in seconds) of each sample, from the top down."""
    step = 20
    drawings = []
    for name, width in (("wide", 1200.0), ("narrow", 380.0)):
        d = Drawing(
            name, width, len(lives) * step + 52, left=52, right=width - 52, top=20, bottom=len(lives) * step + 24
        )
        span = max(wall, budget) if wall > budget * 0.5 else wall * 1.15

        def x(value: float, d: Drawing = d, span: float = span) -> float:
            return round(d.left + value / span * (d.right - d.left), 1)

        mark = next(m * 10.0**e for e in range(-4, 5) for m in (1, 2, 5) if span / (m * 10.0**e) <= width / 110)
        d.x_ticks = [Tick(x(i * mark), seconds(i * mark) if i else "0") for i in range(int(span / mark) + 1)]
        d.cursor = x(budget) if budget <= span else None
        d.labels = [Label(d.cursor, 11, f"budget {seconds(budget)}", "", "end")] if d.cursor else []
        bars = [
            Life(label, sign.family, sign.letter, d.top + i * step, x(min(first, end)), x(end), seconds(end))
            for i, (label, sign, first, end) in enumerate(lives)
        ]
        drawings.append((d, bars))
    return Timeline(tuple(drawings))


def pareto(points: Sequence[Point]) -> list[Point]:
    """The points that no other beats in both latency and quality, from fast to slow."""
    front: list[Point] = []
    for p in sorted(points, key=lambda p: (p.x, -p.y)):
        if not front or p.y > front[-1].y:
            front.append(p)
    return front


def seconds(value: float | None) -> str:
    """A duration as read: `22 ms`, `0.35 s`, `12.4 s`, `2 min 5 s`."""
    if value is None:
        return "–"
    if value >= 120:
        minutes, rest = divmod(round(value), 60)
        if minutes >= 120:
            return f"{minutes // 60} h {minutes % 60} min"
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    if value == round(value, 1):  # a chosen value rather than a measured one
        return f"{value:g} s"
    if value < 0.1:
        return f"{1000 * value:.0f} ms"
    return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"


def percent(share: float | None, digits: int = 1) -> str:
    """A share as per cent: `43.2 %`."""
    return "–" if share is None else f"{100 * share:.{digits}f} %"


def _frame(name: str, width: float, height: float, label_room: float) -> Drawing:
    return Drawing(name, width, height, left=44, right=width - label_room, top=22, bottom=height - 46)


def _time_range(times: Sequence[float]) -> tuple[float, float]:
    known = [t for t in times if t > 0 and math.isfinite(t)]
    if not known:
        return 0.1, 10.0
    low, high = min(known), max(known)
    return (low, high) if high / low >= 1.5 else (low / 2, high * 2)


def _from_first_rise(curve: Curve) -> Sequence[float]:
    """The curve's budgets from just below where it leaves 0: nothing is to be seen earlier."""
    rise = next((i for i, value in enumerate(curve.values) if value > 0), 0)
    return curve.budgets[max(rise - 3, 0) :]


def _clipped(curve: Curve, low: float) -> Curve:
    start = next((i for i, b in enumerate(curve.budgets) if b >= low), 0)
    return replace(
        curve,
        budgets=curve.budgets[start:],
        values=curve.values[start:],
        low=curve.low and curve.low[start:],
        high=curve.high and curve.high[start:],
    )


def _nice_top(value: float) -> float:
    return next((top for top in (0.1, 0.2, 0.4, 0.5, 0.8) if value <= top * 0.97), 1.0)


def _log_x(d: Drawing, value: float, low: float, high: float) -> float:
    share = (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))
    return round(d.left + share * (d.right - d.left), 1)


def _y(d: Drawing, value: float, top: float) -> float:
    return round(d.bottom - value / top * (d.bottom - d.top), 1)


def _log_ticks(d: Drawing, low: float, high: float) -> None:
    least = 54 if d.name == "wide" else 44
    marks = [m * 10.0**e for e in range(-4, 6) for m in (1, 2, 5)]
    last = -math.inf
    for mark in marks:
        if low * 0.999 <= mark <= high * 1.001:
            x = _log_x(d, mark, low, high)
            if x - last >= least:
                d.x_ticks.append(Tick(x, seconds(mark)))
                last = x


def _share_ticks(d: Drawing, top: float) -> None:
    steps = 5 if top in (0.1, 0.5, 1.0) else 4
    d.y_ticks.extend(Tick(_y(d, top * i / steps, top), f"{100 * top * i / steps:.0f} %") for i in range(steps + 1))


def _steps(d: Drawing, xs: Sequence[float], values: Sequence[float], top: float, *, backwards: bool = False) -> str:
    ys = [_y(d, v, top) for v in values]
    if backwards:
        corners = [(xs[-1], ys[-1])]
        for i in range(len(xs) - 1, 0, -1):
            corners += [(xs[i], ys[i]), (xs[i], ys[i - 1])]
        corners.append((xs[0], ys[0]))
    else:
        corners = [(xs[0], ys[0])]
        for i in range(1, len(xs)):
            corners += [(xs[i], ys[i - 1]), (xs[i], ys[i])]
    kept = [c for i, c in enumerate(corners) if i == 0 or c != corners[i - 1]]
    return "M " + " L ".join(f"{x:g} {y:g}" for x, y in kept)


def _shortened(label: Label, room: int) -> Label:
    text = label.text if len(label.text) <= room else label.text[: room - 1] + "…"
    return Label(label.x, label.y, text, label.css, label.anchor, label.href)


def _apart(labels: Sequence[Label], top: float, bottom: float, gap: float = 15) -> list[Label]:
    """Push labels that would overlap apart, keeping their order and staying inside the frame."""
    ordered = sorted(labels, key=lambda label: label.y)
    ys: list[float] = []
    for label in ordered:
        ys.append(max(label.y, ys[-1] + gap) if ys else max(label.y, top))
    limit = bottom
    for i in range(len(ys) - 1, -1, -1):
        ys[i] = min(ys[i], limit)
        limit = ys[i] - gap
    return [
        Label(old.x, round(y, 1), old.text, old.css, old.anchor, old.href) for old, y in zip(ordered, ys, strict=True)
    ]


def _table_budgets(low: float, high: float) -> list[float]:
    marks = [m * 10.0**e for e in range(-4, 6) for m in (1, 2, 5)]
    inside = [m for m in marks if low <= m < high * 0.999]
    return [*inside, high]
