"""Quality as a function of the budget: step functions on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Sequence

from app.web.ui.charts.axes import (
    MOST_STEPS,
    WIDE,
    build_axes,
    choose_table_budgets,
    compute_time_range,
    round_up_share,
)
from app.web.ui.charts.chart import Chart, ChartCurve, ChartReadout
from app.web.ui.charts.parts import LINE, Label, Path, draw_end_labels
from app.web.ui.units import format_count, format_percent, format_seconds

BEFORE_RISE = 0.7  # of the time of the first rise: where an axis begins
CHARACTER = 7  # pixels of a label
FRAME = 70  # pixels of a drawing above and below its curves


def draw_pass_curves(
    curves: Sequence[ChartCurve],
    title: str,
    n_tasks: int,
    *,
    budget: float,
    width: float = WIDE,
    few_ticks: bool = False,
) -> Chart:
    """Pass against budget, over `n_tasks`, 0 at the bottom, with a cursor at `budget` seconds.

    It begins just below where the curves rise. The wide drawing is `width` pixels wide, with room for the labels.
    `few_ticks` suit a chart that stands beside the values.
    """
    low, high = compute_time_range([b for c in curves for b in find_drawn_range(c)])
    end = min(high, max((c.budgets[-1] for c in curves), default=high))
    whole, curves = curves, [c.between(low, high) for c in curves]
    top = round_up_share(max((max(c.high or c.values, default=0.0) for c in curves), default=0.0))
    tallest = FRAME + LINE * len(curves)
    heights = (max(400 if width == WIDE else 280, tallest), 300)
    max_characters = 32 if width == WIDE else 24
    label_room = 12 + CHARACTER * min(max((len(c.label) for c in curves), default=0), max_characters)
    layouts = build_axes(heights, (label_room, 16), low, high, top, width=width)
    for axes in layouts:
        axes.draw_times(few=few_ticks)
        axes.draw_y(most_steps=2 if few_ticks else MOST_STEPS)
        axes.drawing.cursor = axes.clamp_x(budget)
        drawing, ends = axes.drawing, []
        for curve in curves:
            xs = [axes.x(b) for b in curve.budgets]
            if curve.low is not None and curve.high is not None:
                drawing.bands.append(Path(axes.area(xs, curve.low, curve.high), f"band {curve.css}"))
            drawing.lines.append(Path(axes.steps(xs, curve.values), f"curve {curve.kind} {curve.css}", curve.key))
            ends.append(Label(xs[-1], axes.y(curve.values[-1]), curve.label, curve.css, key=curve.key))
        if drawing.name == "wide":  # on a phone the names are in the list below the chart
            draw_end_labels(drawing, ends, max_characters)
    return Chart(
        title=title,
        description=f"{format_count(len(curves), 'curve')} from {format_seconds(low)} to "
        f"{format_seconds(high)} on a logarithmic axis; "
        "the table below holds the values.",
        x_title="Budget per task",
        y_title="Share of tasks",
        layouts=layouts,
        table_head=("Budget", *(c.label for c in curves)),
        table=[
            (format_seconds(b), *(format_percent(c.at(b), n_tasks) for c in whole))
            for b in choose_table_budgets(low, end)
        ],
        reading=ChartReadout(whole, low, high, budget, n_tasks),
    )


def find_drawn_range(curve: ChartCurve) -> Sequence[float]:
    """(start, end) in seconds: from just below where the curve leaves 0 to its end."""
    rise = next((budget for budget, value in zip(curve.budgets, curve.values, strict=True) if value > 0), None)
    return [curve.budgets[-1] / 100 if rise is None else BEFORE_RISE * rise, curve.budgets[-1]]
