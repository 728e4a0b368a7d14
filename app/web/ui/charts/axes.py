"""From values to pixels: a logarithmic axis of seconds from left to right, a linear one upwards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from app.web.ui.charts.parts import Drawing, Tick
from app.web.ui.units import format_seconds

_ROUND = tuple(m * 10.0**e for e in range(-4, 19) for m in (1, 2, 5))
COLUMNS = 40  # of a drawing's width; of the steps in one only the last is drawn
MOST_STEPS = 5  # between the ticks along y
_ROUNDING = 1e-9  # a quotient of floats may miss a whole number by this
_SHARES = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True)
class Axes:
    """A drawing with its ranges: `low` to `high` from left to right, 0 to `top` from the bottom up."""

    drawing: Drawing
    low: float
    high: float
    top: float

    def x(self, value: float) -> float:
        """Pixels of a value of x."""
        at, low, high = map(math.log, (value, self.low, self.high))
        share = (at - low) / (high - low)
        return round(self.drawing.left + share * (self.drawing.right - self.drawing.left), 1)

    def clamp_x(self, value: float) -> float:
        """Pixels of a value of x, moved to the nearer edge where it is out of range."""
        return self.x(min(max(value, self.low), self.high))

    def y(self, value: float) -> float:
        """Pixels of a value of y."""
        return round(self.drawing.bottom - value / self.top * (self.drawing.bottom - self.drawing.top), 1)

    def steps(self, xs: Sequence[float], values: Sequence[float]) -> str:
        """Path data of a step function that takes `values[i]` at pixel `xs[i]` and keeps it until the next.

        Horizontal and vertical lines by turns, and of several steps within 1/COLUMNS of the width only the last: a
        page holds dozens of curves with hundreds of steps.
        """
        return f"M {_format_path(self._list_corners(xs, values))}"

    def area(self, xs: Sequence[float], low: Sequence[float], high: Sequence[float]) -> str:
        """Path data of what lies between two step functions."""
        there, back = self._list_corners(xs, high), self._list_corners(xs, low)[::-1]
        return f"M {_format_path(there)} L {_format_path(back)} Z"

    def _list_corners(self, xs: Sequence[float], values: Sequence[float]) -> list[tuple[float, float]]:
        column = (self.drawing.right - self.drawing.left) / COLUMNS
        drawn = [i for i, x in enumerate(xs) if i in (0, len(xs) - 1) or int(x // column) != int(xs[i + 1] // column)]
        points = [(xs[i], self.y(values[i])) for i in drawn]
        corners = points[:1]
        for (_, before), (x, y) in pairwise(points):
            corners += [(x, before), (x, y)]
        return corners

    def draw_times(self, *, few: bool = False) -> None:
        """Ticks at round seconds, as many as have room; a `few`: at powers of ten, if two are in the range."""
        room = 54 if self.drawing.name == "wide" else 44
        marks = [mark for mark in _ROUND if self.low * 0.999 <= mark <= self.high * 1.001]
        decades = [mark for mark in marks if math.log10(mark).is_integer()]
        last = -math.inf
        for mark in decades if few and len(decades) > 1 else marks:
            x = self.x(mark)
            if x - last >= room:
                self.drawing.x_ticks.append(Tick(x, format_seconds(mark)))
                last = x

    def draw_y(self, *, most_steps: int = MOST_STEPS) -> None:
        """Ticks along y at round shares, from 0 up."""
        step = choose_round_step(self.top, most_steps)
        for i in range(int(self.top / step + _ROUNDING) + 1):
            self.drawing.y_ticks.append(Tick(self.y(i * step), f"{100 * i * step:g} %"))


def _format_path(corners: Sequence[tuple[float, float]]) -> str:
    """Path data from the first corner on, horizontal and vertical lines by turns."""
    path = f"{corners[0][0]:g} {corners[0][1]:g}"
    for axis, lines in groupby(pairwise(corners), key=lambda line: "V" if line[0][0] == line[1][0] else "H"):
        *_, (_, (x, y)) = lines
        path += f"V{y:g}" if axis == "V" else f"H{x:g}"
    return path


WIDE = 1200.0
"""Width in pixels of the wide drawing of a chart that is as wide as the page."""
HALF = 680.0
"""The same for a chart that stands beside a text: drawn wider, its type would shrink."""
NARROW = 380.0


def build_axes(
    heights: tuple[float, float],
    label_rooms: tuple[float, float],
    low: float,
    high: float,
    top: float,
    width: float = WIDE,
) -> tuple[Axes, Axes]:
    """The empty axes of a chart, wide and narrow, with room for the ticks and `label_rooms` pixels to the right."""
    layouts = zip(("wide", "narrow"), (width, NARROW), heights, label_rooms, strict=True)
    wide, narrow = (
        Axes(Drawing(name, across, height, left=44, right=across - room, top=22, bottom=height - 46), low, high, top)
        for name, across, height, room in layouts
    )
    return wide, narrow


def compute_time_range(times: Sequence[float]) -> tuple[float, float]:
    """The smallest and largest positive time, at least a factor of 1.5 apart."""
    known = [t for t in times if t > 0 and math.isfinite(t)]
    if not known:
        return 0.1, 10.0
    low, high = min(known), max(known)
    return (low, high) if high / low >= 1.5 else (low / 2, high * 2)


def round_up_share(value: float) -> float:
    """The smallest round share that leaves a little room above `value`."""
    return next((top for top in _SHARES if value <= top * 0.97), 1.0)


def choose_table_budgets(low: float, high: float) -> list[float]:
    """Round budgets in the range, and its end, for a chart's table."""
    return [*(m for m in _ROUND if low <= m < high * 0.999), high]


def choose_round_step(reach: float, most: float) -> float:
    """The smallest round number of which at most `most` fit into `reach`."""
    return next((s for s in _ROUND if reach / s <= most + _ROUNDING), reach)
