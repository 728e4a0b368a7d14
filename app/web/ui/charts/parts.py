"""What a chart is made of, in pixels of its view box: a logarithmic axis of seconds to the right, shares upwards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from app.web.ui.units import format_seconds

SERIES = 6  # distinct colours in charts.css; later series repeat them with another dash
LINE = 15  # pixels from one label to the next below it
COLUMNS = 40  # of a drawing's width; of the steps in one only the last is drawn
ROUND = tuple(m * 10.0**e for e in range(-4, 19) for m in (1, 2, 5))
_ROUNDING = 1e-9  # a quotient of floats may miss a whole number by this


@dataclass(frozen=True)
class Tick:
    """A grid line: `at` in pixels, `label` as read."""

    at: float
    label: str


@dataclass(frozen=True)
class Label:
    """Text at the end of a curve; `key` names whose it is."""

    x: float
    y: float
    text: str
    css: str
    key: str = ""


@dataclass(frozen=True)
class Path:
    """One drawn line or area; `d` is SVG path data, `key` names whose it is."""

    d: str
    css: str
    key: str = ""


@dataclass
class Drawing:
    """One layout of a chart: `low` to `high` seconds, 0 to the share `most`, with `label_room` pixels to the right."""

    name: str
    width: float
    height: float
    label_room: float
    low: float
    high: float
    most: float
    left: float = 44
    top: float = 22
    x_ticks: list[Tick] = field(default_factory=list)
    y_ticks: list[Tick] = field(default_factory=list)
    bands: list[Path] = field(default_factory=list)
    lines: list[Path] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    cursor: float | None = None

    @property
    def right(self) -> float:
        """Where the plot ends."""
        return self.width - self.label_room

    @property
    def bottom(self) -> float:
        """Where the share is 0."""
        return self.height - 46

    def x(self, seconds: float) -> float:
        """Pixels of a time, moved to the nearer edge where it is out of range."""
        at, low, high = map(math.log, (min(max(seconds, self.low), self.high), self.low, self.high))
        return round(self.left + (at - low) / (high - low) * (self.right - self.left), 1)

    def y(self, share: float) -> float:
        """Pixels of a share."""
        return round(self.bottom - share / self.most * (self.bottom - self.top), 1)

    def draw_ticks(self, *, few: bool) -> None:
        """Ticks at round seconds, as many as have room, and at round shares; a `few` stand at powers of ten."""
        marks = [mark for mark in ROUND if self.low * 0.999 <= mark <= self.high * 1.001]
        decades = [mark for mark in marks if math.log10(mark).is_integer()]
        for mark in decades if few and len(decades) > 1 else marks:
            if not self.x_ticks or self.x(mark) - self.x_ticks[-1].at >= 54:
                self.x_ticks.append(Tick(self.x(mark), format_seconds(mark)))
        step = next(s for s in ROUND if self.most / s <= (2 if few else 5) + _ROUNDING)
        for i in range(int(self.most / step + _ROUNDING) + 1):
            self.y_ticks.append(Tick(self.y(i * step), f"{100 * i * step:g} %"))

    def format_steps(self, seconds: Sequence[float], shares: Sequence[float]) -> str:
        """Path data of a step function that takes `shares[i]` at `seconds[i]` and keeps it until the next."""
        return f"M {self._format_corners(seconds, shares)}"

    def format_area(self, seconds: Sequence[float], low: Sequence[float], high: Sequence[float]) -> str:
        """Path data of what lies between two step functions."""
        return f"M {self._format_corners(seconds, high)} L {self._format_corners(seconds, low, step=-1)} Z"

    def _format_corners(self, seconds: Sequence[float], shares: Sequence[float], step: int = 1) -> str:
        """Of several steps within 1/COLUMNS of the width only the last: a page holds dozens of curves with hundreds."""
        width = (self.right - self.left) / COLUMNS
        points = [(self.x(at), self.y(share)) for at, share in zip(seconds, shares, strict=True)]
        kept = [point for point, after in pairwise(points) if point[0] // width != after[0] // width]
        corners = [(self.left, self.y(0))]
        for x, y in (*kept, points[-1]):
            corners += [(x, corners[-1][1]), (x, y)]
        return " L ".join(f"{x:g} {y:g}" for x, y in corners[::step])

    def draw_names(self, ends: Sequence[Label], max_characters: int) -> None:
        """Draws each name, at most `max_characters` characters, beside the end of its curve, where none covers another.

        They stand below each other in one column to the right of the plot, in the order of the ends and as near to them
        as they can; a thin line joins a name with an end that is not beside it.
        """
        column = self.right + 12
        for end, y in zip(ends, _spread([end.y for end in ends], self.top, self.bottom), strict=True):
            half = max_characters // 2
            text = end.text if len(end.text) <= max_characters else f"{end.text[: half - 1]}…{end.text[-half:]}"
            self.labels.append(replace(end, x=column, y=y, text=text))
            if abs(y - end.y) > 2 or column - end.x > 16:
                path = f"M {end.x + 2:g} {end.y:g} L {column - 4:g} {y:g}"
                self.lines.append(Path(path, "leader", end.key))


def get_series_css(series: int) -> str:
    """Colour class of the series, with another dash each time the colours have been used up."""
    dash = series // SERIES + 1
    return f"series-{series % SERIES + 1}" + (f" dash-{min(dash, 3)}" if dash > 1 else "")


def _spread(ys: Sequence[float], top: float, bottom: float) -> list[float]:
    """Places near `ys`, in their order, a LINE apart (nearer where there is no room), and from `top` to `bottom`."""
    apart = min(LINE, (bottom - top) / max(len(ys) - 1, 1))
    order = sorted(range(len(ys)), key=lambda i: ys[i])
    out, above = [0.0] * len(ys), top - apart
    for i in order:  # down from the top
        out[i] = above = max(ys[i], above + apart)
    below = bottom + apart
    for i in reversed(order):  # and what went too far up again
        out[i] = below = min(out[i], below - apart)
    return [round(y, 1) for y in out]
