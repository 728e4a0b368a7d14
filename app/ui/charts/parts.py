"""What a chart is made of, in pixels of its view box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.ui.charts.axes import Axes

SERIES = 6  # distinct colours in charts.css; later series repeat them with another dash
LINE = 15  # pixels from one label to the next below it
CHARACTER = 6.6  # mean width of one at 12 px


@dataclass(frozen=True)
class Tick:
    """A grid line: `at` in pixels, `label` as read."""

    at: float
    label: str


@dataclass(frozen=True)
class Label:
    """Text at the end of a curve or beside a point, or the point itself; `key` names whose it is.

    A `crowded` one has no room near its curve: it is drawn only while the curve is pointed at.
    """

    x: float
    y: float
    text: str
    css: str
    anchor: str = "start"
    key: str = ""
    crowded: bool = False


@dataclass(frozen=True)
class Path:
    """One drawn line or area; `d` is SVG path data, `key` names whose it is."""

    d: str
    css: str
    key: str = ""


@dataclass
class Drawing:
    """One layout of a chart. `base` is where the axis of x crosses, the bottom unless values can be negative."""

    name: str
    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    base: float = 0.0
    x_ticks: list[Tick] = field(default_factory=list)
    y_ticks: list[Tick] = field(default_factory=list)
    bands: list[Path] = field(default_factory=list)
    lines: list[Path] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    dots: list[Label] = field(default_factory=list)
    marks: list[Label] = field(default_factory=list)
    cursor: float | None = None


@dataclass(frozen=True)
class Chart:
    """A chart ready for its macro: two drawings, a title, one sentence of description and the table below it."""

    title: str
    description: str
    x_title: str
    y_title: str
    layouts: tuple[Axes, Axes]
    table_head: tuple[str, ...]
    table: list[tuple[str, ...]]
    keys: list[tuple[str, str, str]]  # label, classes and key of every series

    @property
    def drawings(self) -> tuple[Drawing, ...]:
        """The wide and the narrow one."""
        return tuple(axes.drawing for axes in self.layouts)


def series_css(series: int) -> str:
    """Colour class of the series, with another dash each time the colours have been used up."""
    dash = series // SERIES + 1
    return f"series-{series % SERIES + 1}" + (f" dash-{min(dash, 3)}" if dash > 1 else "")


def shortened(label: Label, room: int) -> Label:
    """The label with at most `room` characters."""
    return replace(label, text=label.text if len(label.text) <= room else label.text[: room - 1] + "…")


def placed(labels: Sequence[Label], top: float, bottom: float, reach: float) -> list[Label]:
    """The labels where they overlap no earlier one, each at most `reach` pixels above or below its own place.

    One that finds no room there is marked as crowded. Those that come first are placed first.
    """
    taken: list[Label] = []
    out = []
    steps = range(int(reach // LINE) + 1)
    shifts = [0.0, *(sign * step * LINE for step in steps if step for sign in (1, -1))]
    for label in labels:
        tries = (replace(label, y=round(min(max(label.y + shift, top), bottom), 1)) for shift in shifts)
        found = next((t for t in tries if abs(t.y - label.y) <= reach and not any(_overlap(t, o) for o in taken)), None)
        if found:
            taken.append(found)
        out.append(found or replace(label, crowded=True))
    return out


def _overlap(one: Label, other: Label) -> bool:
    (a, b), (c, d) = _extent(one), _extent(other)
    return abs(one.y - other.y) < LINE and a < d and c < b


def _extent(label: Label) -> tuple[float, float]:
    width = len(label.text) * CHARACTER
    return (label.x - width, label.x) if label.anchor == "end" else (label.x, label.x + width)
