"""The best of several curves at every budget: all curves thin, and their upper envelope thick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

from app.ui.charts.axes import Axes, lay_out, nice_top, table_budgets, time_range
from app.ui.charts.curves import FRAME, LONGEST_LABEL, Curve, from_first_rise
from app.ui.charts.parts import LINE, Chart, Label, Path, name_ends
from app.ui.charts.reading import Reading
from app.ui.units import per_cent, percent, seconds

NAMES_ROOM = 176  # pixels beside the chart
T = TypeVar("T")


@dataclass(frozen=True)
class Envelope:
    """The upper envelope: at `budgets[i]` seconds the curve with the key `leaders[i]` leads (None: none has passed).

    `close[i]`: it is not shown to be better than every other curve.
    """

    budgets: Sequence[float]
    leaders: Sequence[str | None]
    values: Sequence[float]
    close: Sequence[bool]


def frontier_chart(curves: Sequence[Curve], best: Envelope, title: str, n_tasks: int, *, budget: float) -> Chart:
    """The curves over `n_tasks` and their envelope, with a cursor at `budget` seconds.

    The envelope has the colour of the curve that leads. Where the lead is undecided the chart is shaded.
    """
    low, high = time_range([b for c in curves for b in from_first_rise(c)])
    top = nice_top(max((max(c.values, default=0.0) for c in curves), default=0.0))
    winners = {curve.key: curve for curve in curves if curve.key in best.leaders}
    layouts = lay_out((max(360, FRAME + LINE * len(curves)), 280), (NAMES_ROOM, 12), low, high, top)
    for axes in layouts:
        axes.draw_times()
        axes.draw_y()
        axes.draw_budget(budget)
        drawing = axes.drawing
        drawing.bands = [Path(d, "band close") for d in _shading(axes, best)]
        ends = []
        for curve in (c.between(low, high) for c in curves):
            xs = [axes.x(b) for b in curve.budgets]
            drawing.lines.append(Path(axes.steps(xs, curve.values), f"curve thin {curve.css}", curve.key))
            ends.append(Label(xs[-1], axes.y(curve.values[-1]), curve.label, curve.css, key=curve.key))
        level = 0.0
        for key, start, stop in _stretches(best.leaders):
            if key is None:
                level = 0.0
            elif _end(best, stop) > low:
                path, level = _stretch(axes, best, start, stop, winners[key], level)
                drawing.lines.append(path)
        if drawing.name == "wide":  # on a phone the names are in the list below the chart
            name_ends(drawing, ends, LONGEST_LABEL)
    return Chart(
        title=title,
        description=f"{len(curves)} thin curves from {seconds(low)} to {seconds(high)} on a logarithmic axis, and "
        f"above them the best at every budget: {', '.join(c.label for c in winners.values()) or 'none yet'}. "
        "The table below holds the values.",
        x_title="Budget per task",
        y_title="Share of tasks",
        layouts=layouts,
        table_head=("Budget", "Best arm", "Share of tasks", "Undecided"),
        table=[_line(best, winners, at, n_tasks) for at in table_budgets(low, high) if at in best.budgets],
        keys=[(c.label, c.css, c.key) for c in curves],
        reading=Reading(curves, low, high, budget, lambda share: per_cent(share, n_tasks)),
    )


def _stretches(values: Sequence[T]) -> list[tuple[T, int, int]]:
    """Adjacent equal values as (value, first index, index after the last)."""
    out, start = [], 0
    for value, group in groupby(values):
        stop = start + len(list(group))
        out.append((value, start, stop))
        start = stop
    return out


def _end(best: Envelope, stop: int) -> float:
    """Seconds at which a stretch ends: where the next begins, or the last budget."""
    return best.budgets[min(stop, len(best.budgets) - 1)]


def _stretch(axes: Axes, best: Envelope, start: int, stop: int, curve: Curve, level: float) -> tuple[Path, float]:
    """One winner's part of the envelope, from the share `level` at which it takes over; and the share where it ends."""
    part = curve.between(max(best.budgets[start], axes.low), _end(best, stop))
    values = list(part.values)
    if stop < len(best.budgets):
        values[-1] = values[-2]  # from there on the next one leads
    xs = [axes.inside(b) for b in (part.budgets[0], *part.budgets)]
    return Path(axes.steps(xs, [level, *values]), f"curve best {curve.css}", curve.key), values[-1]


def _shading(axes: Axes, best: Envelope) -> list[str]:
    """Path data of a rectangle over each stretch of budgets where the lead is undecided."""
    top, bottom = axes.drawing.top, axes.drawing.bottom
    out = []
    for close, start, stop in _stretches(best.close):
        left, right = axes.inside(best.budgets[start]), axes.inside(_end(best, stop))
        if close and right > left:
            out.append(f"M {left:g} {top:g} L {right:g} {top:g} L {right:g} {bottom:g} L {left:g} {bottom:g} Z")
    return out


def _line(best: Envelope, winners: dict[str, Curve], budget: float, n_tasks: int) -> tuple[str, ...]:
    at = best.budgets.index(budget)
    key = best.leaders[at]
    name = "none has passed" if key is None else winners[key].label
    return seconds(budget), name, percent(best.values[at], n_tasks), "yes" if best.close[at] else "no"
