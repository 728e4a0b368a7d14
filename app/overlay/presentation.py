"""Values that the page of an overlay shows: the curves, their values at each budget, and notes on the runs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from app.overlay.grouping import Group, unbalanced, varying
from app.overlay.loading import Overlaid
from app.overlay.notes import measurement_notes, sample_count_note
from app.runs.colours import series_of
from app.runs.options import options_of
from app.runs.schemas import RunOptions
from app.ui.charts.curves import BEFORE_RISE, Curve, pass_curves
from app.ui.charts.parts import Chart, series_css
from app.ui.opening import where_half_is_answered
from app.ui.units import seconds
from evaluation import metrics
from evaluation.metrics import BUDGET_GRID

NOT_IN_TURN = (
    "The runs were not measured in turn, so the machine alone may have made some of them faster. An overlay of two of "
    "them tests whether that could explain their difference."
)
Figure = Literal["both", "first", "all"]
FIGURES: dict[Figure, str] = dict(zip(get_args(Figure), ("Both figures", "Pass@First", "Pass@All"), strict=True))
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


@dataclass(frozen=True, slots=True)
class Readout:
    """A line below the chart: its shares at each budget of the slider, as per cent with one decimal, for the script."""

    group: Group
    css: str
    first: str
    every: str


def curves(found: Overlaid, groups: Sequence[Group], numbers: Mapping[uuid.UUID, int]) -> list[LineCurves]:
    """The curves of all lines over the common tasks; several runs get their mean, up to the shortest budget.

    A line has the colour of its first run; `numbers` are the numbers of the runs (app/runs/colours.py).
    """
    made = []
    colours = series_of([numbers[found.runs[group.members[0]].id] for group in groups])
    for group, series in zip(groups, colours, strict=True):
        end = min(found.runs[place].budget_s for place in group.members)
        of_runs = [found.measured.curve(place, end) for place in group.members]
        if len(of_runs) == 1:
            made.append(LineCurves(group, series, of_runs[0], of_runs[0].pass_first, of_runs[0].pass_first))
            continue
        budgets = sorted({budget for curve in of_runs for budget in curve.budgets})
        first, every = np.moveaxis(np.array([[curve.at(budget) for budget in budgets] for curve in of_runs]), 2, 0)
        mean = metrics.Curve(tuple(budgets), *(tuple(of.mean(axis=0).tolist()) for of in (first, every)))
        low, high = (tuple(of.tolist()) for of in (first.min(axis=0), first.max(axis=0)))
        made.append(LineCurves(group, series, mean, low, high))
    return made


def chart(
    lines: Sequence[LineCurves],
    figure: Figure,
    budget_s: float,
    *,
    span: tuple[float, float] | None = None,
    marks: Sequence[tuple[float, str]] = (),
) -> Chart:
    """The curves in one chart, with a cursor at the budget; bands span the runs of a group.

    `span` (seconds) and `marks` go to `pass_curves`.
    """
    drawn = []
    for line in lines:
        # Names would not all find room beside many curves; the values below the chart say whose letter it is.
        name = f"{line.group.key} {line.group.label}" if len(lines) <= FEW else line.group.key
        key = f"line-{line.group.key}"
        if figure != "first":
            label = f"{line.group.key} All" if figure == "both" else name
            drawn.append(
                Curve(
                    label,
                    line.curve.budgets,
                    line.curve.pass_all,
                    line.series,
                    "all" if figure == "both" else "first",
                    key=key,
                )
            )
        if figure != "all":
            low, high = (line.low, line.high) if len(line.group.members) > 1 else (None, None)
            drawn.append(Curve(name, line.curve.budgets, line.curve.pass_first, line.series, "first", low, high, key))
    words = {"both": "Pass@First and Pass@All", "first": "Pass@First", "all": "Pass@All"}[figure]
    return pass_curves(
        drawn,
        f"{words} against the budget",
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


def readouts(lines: Sequence[LineCurves], budgets: Sequence[float]) -> list[Readout]:
    """What the script reads: the values of each line at the budgets of the slider, as many as the line is long."""
    made = []
    for line in lines:
        shares = [line.curve.at(budget) for budget in budgets if budget <= line.curve.budgets[-1]]
        first, every = (" ".join(f"{100 * of[figure]:.1f}" for of in shares) for figure in (0, 1))
        made.append(Readout(line.group, series_css(line.series), first, every))
    return made


def slider_budgets(lines: Sequence[LineCurves], drawn: Chart, budget_s: float) -> list[float]:
    """Round budgets that the chart covers, the ends of the lines, and the page's own."""
    ends = {line.curve.budgets[-1] for line in lines}
    return sorted({budget_s, *ends, *(budget for budget in BUDGET_GRID if drawn.layouts[0].low <= budget < max(ends))})


def settings(found: Overlaid) -> list[tuple[str, list[str]]]:
    """(label, value of each run) of the options in which the runs differ."""
    return [
        (option.label, [option.text(getattr(run, name)) for run in found.runs])
        for name, option in options_of(RunOptions).items()
        if len({getattr(run, name) for run in found.runs}) > 1
    ]


def opening_budget(found: Overlaid) -> float:
    """The budget at which a page opens: by then the slowest run has a finished sample for half of its tasks."""
    times = [of_run[~np.isnan(of_run)].tolist() for of_run in found.measured.first_finished()]
    return where_half_is_answered(times, found.longest_s)


def notes(found: Overlaid, groups: Sequence[Group], field: str | None, not_in_turn: str | None) -> list[str]:
    """Caveats on the figures of the overlay, each a sentence or two.

    `not_in_turn` says what that means for the times of runs that were not measured in turn, None for arms of one study.
    """
    said = [f"Left out: {error}." for error in found.left_out]
    common = len(found.task_ids)
    if max(found.graded) > common:
        named = ", ".join(
            f"{letter} {count}" for letter, count in zip(found.letters, found.graded, strict=True) if count > common
        )
        said.append(
            f"The runs graded different tasks. All figures are over the {common} that all of them have graded; "
            f"more were graded by: {named}."
        )
    said += measurement_notes(found.runs, found.letters, not_in_turn)
    if field is None:
        said += sample_count_note(found.runs, found.letters)
    if field is not None and (labels := unbalanced(found.runs, field, groups)):
        said.append(
            f"The groups do not hold the same values of {', '.join(labels)} equally often, so their means differ by "
            f"more than {options_of(RunOptions)[field].label.lower()}."
        )
    return said


def spread_words(found: Overlaid, group: Group) -> str:
    """What a mean is over, such as `mean of 3 runs that differ in seed`; empty for a run alone."""
    count = len(group.members)
    if count == 1:
        return ""
    differs = varying([found.runs[place] for place in group.members])
    return f"mean of {count} runs" + (f" that differ in {', '.join(differs)}" if differs else " of one configuration")


def too_long(found: Overlaid, budget_s: float | None) -> str:
    """Why the page shows a shorter budget than the one asked for; empty if it does not."""
    if budget_s is None or budget_s <= found.longest_s:
        return ""
    shortest = min(zip(found.runs, found.letters, strict=True), key=lambda pair: pair[0].budget_s)
    return (
        f"budget is {budget_s:g}: run {shortest[1]} stopped at {seconds(found.longest_s)}, so give at most that or "
        "leave the run out"
    )
