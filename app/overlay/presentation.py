"""Values that the page of an overlay shows: the curves, their values at each budget, and notes on the runs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from app.overlay.grouping import Group, fields_that_differ
from app.overlay.loading import Overlaid
from app.runs.colours import series_of
from app.runs.options import options_of
from app.runs.schemas import RunOptions
from app.ui import opening
from app.ui.charts.curves import BEFORE_RISE, Curve, pass_curves
from app.ui.charts.parts import Chart
from app.ui.units import seconds
from evaluation import metrics
from evaluation.metrics import BUDGET_GRID

NOT_IN_TURN = (
    "The runs were not measured in turn, so the machine alone may have made some of them faster. An overlay of two of "
    "them tests whether that could explain their difference."
)
Figure = Literal["both", "first", "all"]
FIGURES: dict[Figure, str] = {"both": "Both figures", "first": "Pass@First", "all": "Pass@All"}
LABEL_ROOM = 176  # pixels beside a chart whose curves have names
FEW = 4  # lines whose curves of both figures can be told apart in one chart


@dataclass(frozen=True, slots=True)
class LineCurves:
    """The curve of one line up to its own end, and its runs' lowest and highest Pass@First at the same budgets.

    `series` gives the line its colour and dash.
    """

    group: Group
    series: int
    curve: metrics.Curve
    low: tuple[float, ...]
    high: tuple[float, ...]


def curves(found: Overlaid, groups: Sequence[Group], numbers: Mapping[uuid.UUID, int]) -> list[LineCurves]:
    """The curves of all lines over the common tasks; several runs get their mean, up to the shortest budget.

    A line has the colour of its first run; `numbers` are the numbers of the runs (app/runs/colours.py).
    """
    made = []
    colours = series_of([numbers[found.runs[group.members[0]].id] for group in groups])
    for group, series in zip(groups, colours, strict=True):
        end = min(found.runs[place].budget_s for place in group.members)
        of_runs = [found.measured.curve(place, end) for place in group.members]
        budgets = sorted({budget for curve in of_runs for budget in curve.budgets})
        first, every = np.moveaxis(np.array([[curve.at(budget) for budget in budgets] for curve in of_runs]), 2, 0)
        mean = metrics.Curve(tuple(budgets), *(tuple(of.mean(axis=0).tolist()) for of in (first, every)))
        low, high = (tuple(of.tolist()) for of in (first.min(axis=0), first.max(axis=0)))
        made.append(LineCurves(group, series, mean, low, high))
    return made


def chart(
    lines: Sequence[LineCurves],
    figure: Figure,
    n_tasks: int,
    budget_s: float,
    *,
    span: tuple[float, float] | None = None,
    marks: Sequence[tuple[float, str]] = (),
) -> Chart:
    """The curves over `n_tasks` in one chart, with a cursor at the budget; bands span the runs of a group.

    `span` (seconds) and `marks` go to `pass_curves`.
    """
    drawn = []
    for line in lines:
        name = f"{line.group.key} {line.group.label}"
        # Names would not find room beside many curves; the values below the chart say whose letter it is.
        label = name if len(lines) <= FEW else line.group.key
        key = f"line-{line.group.key}"
        ends = line.curve.budgets
        if figure != "all":
            low, high = (line.low, line.high) if len(line.group.members) > 1 else (None, None)
            drawn.append(Curve(label, ends, line.curve.pass_first, line.series, "first", low, high, key, name))
        if figure == "both":
            every = f"{line.group.key} All"
            drawn.append(Curve(every, ends, line.curve.pass_all, line.series, "all", key=key, name=f"{name}, Pass@All"))
        elif figure == "all":
            drawn.append(Curve(label, ends, line.curve.pass_all, line.series, "first", key=key, name=name))
    words = "Pass@First and Pass@All" if figure == "both" else FIGURES[figure]
    return pass_curves(
        drawn,
        f"{words} against the budget",
        n_tasks,
        budget=budget_s,
        label_room=LABEL_ROOM if len(lines) <= FEW else 64,
        span=span,
        marks=marks,
    )


def span(lines: Sequence[LineCurves], longest_s: float) -> tuple[float, float]:
    """The seconds from just below where the first curve rises to `longest_s`, for charts below each other."""
    rises = [
        budget
        for line in lines
        for budget, share in zip(line.curve.budgets, line.curve.pass_all, strict=True)
        if share > 0
    ]
    first = min([*rises, longest_s])
    return max((x for x in BUDGET_GRID if x < first), default=BEFORE_RISE * first), longest_s


def slider_budgets(lines: Sequence[LineCurves], drawn: Chart, budget_s: float) -> list[float]:
    """Round budgets that the chart covers, the ends of the lines, and the page's own."""
    ends = {line.curve.budgets[-1] for line in lines}
    return sorted({budget_s, *ends, *(budget for budget in BUDGET_GRID if drawn.layouts[0].low <= budget < max(ends))})


def settings(found: Overlaid) -> list[tuple[str, list[str]]]:
    """(label, value of each run) of the options in which the runs differ."""
    options = options_of(RunOptions)
    return [
        (label, [options[name].text(getattr(run, name)) for run in found.runs])
        for name, label in fields_that_differ(found.runs)
    ]


def opening_budget(found: Overlaid) -> float:
    """The budget at which a page opens."""
    curves = [found.measured.curve(place, found.longest_s) for place in range(len(found.runs))]
    return opening.opening_budget(curves, found.longest_s)


def made_of(found: Overlaid, group: Group) -> str:
    """What a mean is over, such as `mean of 3 runs that differ in seed: A, B, C`; of a run alone its letter."""
    count = len(group.members)
    letters = ", ".join(found.letters[place] for place in group.members)
    if count == 1:
        return f"run {letters}"
    words = f"that differ in {', '.join(group.varies)}" if group.varies else "of one configuration"
    return f"mean of {count} runs {words}: {letters}"


def too_long(found: Overlaid, budget_s: float | None) -> str:
    """Why the page shows a shorter budget than the one asked for; empty if it does not."""
    if budget_s is None or budget_s <= found.longest_s:
        return ""
    shortest = min(zip(found.runs, found.letters, strict=True), key=lambda pair: pair[0].budget_s)
    return (
        f"budget is {budget_s:g}: run {shortest[1]} stopped at {seconds(found.longest_s)}, so give at most that or "
        "leave the run out"
    )
