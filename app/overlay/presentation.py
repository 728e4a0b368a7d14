"""Values that the page of an overlay shows: the curves, their values at each budget, and the tasks that differ."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from app.overlay.loading import Overlaid
from app.overlay.pair import RunComparison
from app.runs import presentation as shown
from app.runs.colours import series_of
from app.runs.options import options_of
from app.runs.schemas import RunOptions
from app.ui import opening
from app.ui.charts.curves import BEFORE_RISE, Curve, difference, pass_curves
from app.ui.charts.parts import Chart
from app.ui.units import seconds
from evaluation import metrics
from evaluation.metrics import BUDGET_GRID

Shown = Literal["both", "first", "all"]
FIGURES: dict[Shown, str] = {"both": "Both figures", "first": "Pass@First", "all": "Pass@All"}
LABEL_ROOM = 176  # pixels beside a chart whose curves have names
FEW = 4  # lines whose curves of both figures can be told apart in one chart
OUTCOMES = {-1: "lost", 0: "alike", 1: "won"}
"""Of B at a task, by how much more than A it solves it."""


@dataclass(frozen=True, slots=True)
class LineCurve:
    """The curve of one run up to its own budget. `series` gives it its colour and dash."""

    key: str
    label: str
    series: int
    curve: metrics.Curve


@dataclass(frozen=True)
class Differing:
    """A task that the runs solve differently: the outcome of B, and the samples of both in finish order."""

    task_id: str
    first: str
    every: str
    samples: list[list[shown.SampleSign]]


def compute_curves(found: Overlaid, numbers: Mapping[uuid.UUID, int]) -> list[LineCurve]:
    """The curves of all runs over the common tasks; `numbers` are the numbers of the runs (app/runs/colours.py)."""
    colours = series_of([numbers[run.id] for run in found.runs])
    parts = zip(found.letters, found.labels, colours, found.runs, strict=True)
    return [
        LineCurve(letter, label, colour, found.compared.outcomes.curve(place, run.budget_s))
        for place, (letter, label, colour, run) in enumerate(parts)
    ]


def chart(
    lines: Sequence[LineCurve], figure: Shown, n_tasks: int, budget_s: float, span: tuple[float, float] | None
) -> Chart:
    """The curves over `n_tasks` in one chart, with a cursor at the budget; `span` (seconds) goes to `pass_curves`."""
    drawn = []
    for line in lines:
        name = f"{line.key} {line.label}"
        # Names would not find room beside many curves; the values below the chart say whose letter it is.
        label = name if len(lines) <= FEW else line.key
        key, ends = f"line-{line.key}", line.curve.budgets
        shares = line.curve.pass_all if figure == "all" else line.curve.pass_first
        drawn.append(Curve(label, ends, shares, line.series, "first", key=key, name=name))
        if figure == "both":
            every = (f"{line.key} All", ends, line.curve.pass_all, line.series, "all")
            drawn.append(Curve(*every, key=key, name=f"{name}, Pass@All"))
    words = "Pass@First and Pass@All" if figure == "both" else FIGURES[figure]
    room = LABEL_ROOM if len(lines) <= FEW else 64
    return pass_curves(drawn, f"{words} against the budget", n_tasks, budget=budget_s, label_room=room, span=span)


def find_span(lines: Sequence[LineCurve], longest_s: float) -> tuple[float, float]:
    """The seconds from just below where the first curve rises to `longest_s`, for charts below each other."""
    rises = [
        budget
        for line in lines
        for budget, share in zip(line.curve.budgets, line.curve.pass_all, strict=True)
        if share > 0
    ]
    first = min([*rises, longest_s])
    return max((x for x in BUDGET_GRID if x < first), default=BEFORE_RISE * first), longest_s


def draw_gap(compared: RunComparison, span: tuple[float, float], series: int) -> Chart:
    """The difference between two runs in Pass@First with its band at every budget."""
    low, high = span
    inside = {x for x in (*BUDGET_GRID, compared.budget_s) if low < x < high}
    budgets = [low, *sorted(inside), high]
    band = [compared.found.compared.decide("first", 1, 0, budget) for budget in budgets]
    return difference(
        budgets,
        [one.difference for one in band],
        [one.low for one in band],
        [one.high for one in band],
        "B minus A in Pass@First",
        compared.found.compared.n_tasks,
        budget=compared.budget_s,
        label_room=LABEL_ROOM,
        series=series,
    )


def find_differing(compared: RunComparison) -> list[Differing]:
    """Tasks that only A solves come first, by Pass@First, then by Pass@All; then those that only B solves."""
    found, outcomes = compared.found, compared.found.compared.outcomes
    first, every = (of[1].astype(np.int64) - of[0] for of in outcomes.at(compared.budget_s))
    lines = []
    for task in sorted(np.flatnonzero(first | every), key=lambda task: (first[task], every[task])):
        signs = []
        for run in range(2):
            places = np.flatnonzero((outcomes.columns.run == run) & (outcomes.columns.task == task))
            rows: list[Any] = [found.samples[place] for place in places]  # with what a Sample has that it reads
            signs.append(shown.in_finish_order(rows, compared.budget_s))
        lines.append(Differing(found.task_ids[task], OUTCOMES[first[task]], OUTCOMES[every[task]], signs))
    return lines


def slider_budgets(lines: Sequence[LineCurve], drawn: Chart, budget_s: float) -> list[float]:
    """Round budgets that the chart covers, the ends of the lines, and the page's own."""
    ends = {line.curve.budgets[-1] for line in lines}
    return sorted({budget_s, *ends, *(budget for budget in BUDGET_GRID if drawn.layouts[0].low <= budget < max(ends))})


def find_settings(found: Overlaid) -> list[tuple[str, list[str]]]:
    """(label, value of each run) of the options in which the runs differ."""
    return [
        (option.label, [option.text(getattr(run, name)) for run in found.runs])
        for name, option in options_of(RunOptions).items()
        if len({getattr(run, name) for run in found.runs}) > 1
    ]


def opening_budget(found: Overlaid) -> float:
    """The budget at which a page opens."""
    return opening.opening_budget(found.compared.curves, found.longest_s)


def too_long(found: Overlaid, budget_s: float | None) -> str:
    """Why the page shows a shorter budget than the one asked for; empty if it does not."""
    if budget_s is None or budget_s <= found.longest_s:
        return ""
    shortest = min(zip(found.runs, found.letters, strict=True), key=lambda pair: pair[0].budget_s)
    return (
        f"budget is {budget_s:g}: run {shortest[1]} stopped at {seconds(found.longest_s)}, so give at most that or "
        "leave the run out"
    )
