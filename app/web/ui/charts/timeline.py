"""The samples of a task on its clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.web.ui.charts.axes import choose_round_step
from app.web.ui.charts.parts import Drawing, Label, Tick
from app.web.ui.units import format_count, format_seconds

if TYPE_CHECKING:
    from app.web.ui.display import VerdictSign

STEP = 20
_WORDS = 42  # room that the seconds of a bar take


@dataclass(frozen=True)
class SampleTiming:
    """One sample: its first token and its end, in seconds since the engine took the task up."""

    label: str
    sign: VerdictSign
    first: float
    end: float


@dataclass(frozen=True)
class Bar:
    """A sample in pixels: the bar ends at `end`, its first token is at `first`, its seconds are written at `text_x`."""

    sample: SampleTiming
    y: float
    first: float
    end: float
    text_x: float


@dataclass(frozen=True)
class Timeline:
    """Bars of the samples of a task, laid out wide and narrow; `samples` are the table behind them."""

    description: str
    drawings: tuple[tuple[Drawing, list[Bar]], ...]
    samples: tuple[SampleTiming, ...]


def draw_timeline(samples: Sequence[SampleTiming], budget: float, wall: float) -> Timeline:
    """The samples from the top down, up to `wall` seconds, with a line at `budget` where that is in sight."""
    span = max(wall, budget) if wall > budget * 0.5 else wall * 1.15
    drawings = []
    for name, width in (("wide", 1200.0), ("narrow", 380.0)):
        height = len(samples) * STEP
        d = Drawing(name, width, height + 52, left=52, right=width - 52, top=20, bottom=height + 24)

        def x(value: float, d: Drawing = d) -> float:
            return round(d.left + value / span * (d.right - d.left), 1)

        mark = choose_round_step(span, width / 110)
        d.x_ticks = [Tick(x(i * mark), format_seconds(i * mark) if i else "0") for i in range(int(span / mark) + 1)]
        d.cursor = x(budget) if budget <= span else None
        d.labels = [Label(d.cursor, 11, f"budget {format_seconds(budget)}", "")] if d.cursor else []
        drawings.append((d, [_draw_bar(sample, d.top + i * STEP, x, d.cursor) for i, sample in enumerate(samples)]))
    return Timeline(
        f"{format_count(len(samples), 'sample')} from the start of the task to {format_seconds(wall)}, "
        f"budget {format_seconds(budget)}; the table below holds the values.",
        tuple(drawings),
        tuple(samples),
    )


def _draw_bar(sample: SampleTiming, y: float, x: Callable[[float], float], cursor: float | None) -> Bar:
    end = x(sample.end)
    crossed = cursor is not None and end <= cursor < end + 5 + _WORDS
    return Bar(sample, y, x(min(sample.first, sample.end)), end, (cursor if cursor and crossed else end) + 5)
