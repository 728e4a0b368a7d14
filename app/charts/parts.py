"""What a chart is made of, in pixels of its view box."""

from __future__ import annotations

from dataclasses import dataclass, field

SERIES = 6  # distinct colours in charts.css; later series repeat them with another dash


@dataclass(frozen=True)
class Tick:
    """A grid line: `at` in pixels, `label` as read."""

    at: float
    label: str


@dataclass(frozen=True)
class Label:
    """Text at the end of a curve or beside a point, or the point itself; `key` names whose it is."""

    x: float
    y: float
    text: str
    css: str
    anchor: str = "start"
    key: str = ""


@dataclass(frozen=True)
class Path:
    """One drawn line or area; `d` is SVG path data."""

    d: str
    css: str


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
    """A chart ready for its macro: two drawings, a title, one sentence of description and the table behind it.

    `low` to `high` is the range of x in seconds, `top` the highest y; `row_keys` name whose the table's rows are.
    """

    title: str
    description: str
    x_title: str
    y_title: str
    drawings: tuple[Drawing, ...]
    low: float
    high: float
    top: float
    table_head: tuple[str, ...]
    table: list[tuple[str, ...]]
    keys: list[tuple[str, str]]
    row_keys: tuple[str, ...] = ()


def series_css(series: int) -> str:
    """Colour class of the series, with another dash each time the colours have been used up."""
    dash = series // SERIES + 1
    return f"series-{series % SERIES + 1}" + (f" dash-{min(dash, 3)}" if dash > 1 else "")


def frame(name: str, width: float, height: float, label_room: float) -> Drawing:
    """An empty drawing with room for the axes, and `label_room` pixels to the right."""
    drawing = Drawing(name, width, height, left=44, right=width - label_room, top=22, bottom=height - 46)
    drawing.base = drawing.bottom
    return drawing


def shortened(label: Label, room: int) -> Label:
    """The label with at most `room` characters."""
    text = label.text if len(label.text) <= room else label.text[: room - 1] + "…"
    return Label(label.x, label.y, text, label.css, label.anchor, label.key)


def apart(labels: list[Label], top: float, bottom: float, gap: float = 15) -> list[Label]:
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
        Label(old.x, round(y, 1), old.text, old.css, old.anchor, old.key) for old, y in zip(ordered, ys, strict=True)
    ]
