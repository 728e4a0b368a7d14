"""What a chart is made of, in pixels of its view box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

SERIES = 6  # distinct colours in charts.css; later series repeat them with another dash
LINE = 15  # pixels from one label to the next below it


@dataclass(frozen=True)
class Tick:
    """A grid line: `at` in pixels, `label` as read."""

    at: float
    label: str


@dataclass(frozen=True)
class Label:
    """Text at the end of a curve, or a point; `key` names whose it is."""

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
    """One layout of a chart."""

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
    cursor: float | None = None


def get_series_css(series: int) -> str:
    """Colour class of the series, with another dash each time the colours have been used up."""
    dash = series // SERIES + 1
    return f"series-{series % SERIES + 1}" + (f" dash-{min(dash, 3)}" if dash > 1 else "")


def shorten_labels(labels: Sequence[Label], max_characters: int) -> list[Label]:
    """The labels, at most `max_characters` each: the beginnings, or the ends where beginnings are equal."""
    texts = [
        label.text if len(label.text) <= max_characters else label.text[: max_characters - 1] + "…" for label in labels
    ]
    return [
        replace(
            label, text=f"…{label.text[1 - max_characters :]}" if text != label.text and texts.count(text) > 1 else text
        )
        for label, text in zip(labels, texts, strict=True)
    ]


def draw_end_labels(drawing: Drawing, ends: Sequence[Label], max_characters: int) -> None:
    """Draws each label, at most `max_characters` characters, beside the end of its curve, where none covers another.

    They stand below each other in one column to the right of the drawing, in the order of the ends and as near to them
    as they can; a thin line joins a label with an end that is not beside it.
    """
    column = drawing.right + 12
    ys = _spread_labels([end.y for end in ends], drawing.top, drawing.bottom)
    for end, y in zip(shorten_labels(ends, max_characters), ys, strict=True):
        drawing.labels.append(replace(end, x=column, y=y))
        if abs(y - end.y) > 2 or column - end.x > 16:
            path = f"M {end.x + 2:g} {end.y:g} L {column - 4:g} {y:g}"
            drawing.lines.append(Path(path, "leader", end.key))


def _spread_labels(ys: Sequence[float], top: float, bottom: float) -> list[float]:
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
