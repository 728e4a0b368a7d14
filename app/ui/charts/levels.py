"""Shares over the time of a run, with the limit that they should stay below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.ui.charts.axes import nice_top
from app.ui.charts.parts import Chart, Label, Path, Tick, frame
from app.ui.units import percent, seconds

_STEPS = tuple(m * 10.0**e for e in range(-2, 6) for m in (1, 2, 5))


@dataclass(frozen=True)
class Level:
    """One value: `at_s` seconds after the start, its `share`, and `label` in the table."""

    at_s: float
    share: float
    label: str


def levels(items: Sequence[Level], title: str, heads: tuple[str, str], limit: float) -> Chart:
    """The values (at least one) as points joined by a line, and `limit` as a dashed one.

    `heads` are the table's: of the labels, and of the shares, which is also the title of the axis.
    """
    last = max(item.at_s for item in items) or 1.0
    highest = max(item.share for item in items)
    top = max(nice_top(max(highest, limit)), highest)
    drawings = []
    for drawing in (frame("wide", 1200, 240, 24), frame("narrow", 380, 220, 16)):
        d = drawing
        across, up = d.right - d.left, d.bottom - d.top
        step = next(s for s in _STEPS if last / s <= across / 90)
        marks = [i * step for i in range(int(last / step) + 1)]
        d.x_ticks = [Tick(round(d.left + at / last * across, 1), seconds(at)) for at in marks]
        d.y_ticks = [Tick(round(d.bottom - i / 4 * up, 1), f"{100 * top * i / 4:.3g} %") for i in range(5)]
        places = [
            (round(d.left + item.at_s / last * across, 1), round(d.bottom - item.share / top * up, 1)) for item in items
        ]
        bound = round(d.bottom - limit / top * up, 1)
        d.lines = [
            Path("M " + " L ".join(f"{x:g} {y:g}" for x, y in places), "curve series-1"),
            Path(f"M {d.left:g} {bound:g} H {d.right:g}", "front"),
        ]
        d.dots = [Label(x, y, item.label, "series-1") for (x, y), item in zip(places, items, strict=True)]
        drawings.append(d)
    return Chart(
        title=title,
        description=f"{len(items)} values, the highest {percent(highest)}; the limit is {percent(limit, 0)}.",
        x_title="Time since the run began",
        y_title=heads[1],
        drawings=tuple(drawings),
        low=0.0,
        high=last,
        top=top,
        table_head=(heads[0], "Since the run began", heads[1]),
        table=[(item.label, seconds(item.at_s), percent(item.share)) for item in items],
        keys=[],
    )
