"""Values that the page of an overlay shows: the curves, their values at each budget, and the tasks that differ."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.comparison.loading import Overlaid
from app.comparison.pair import RunComparison
from app.runs import presentation as shown
from app.runs.colours import series_of
from app.runs.options import options_of
from app.runs.schemas import RunOptions
from app.web.ui import opening
from app.web.ui.charts.comparison import LABEL_ROOM, LineCurve
from app.web.ui.charts.curves import difference
from app.web.ui.charts.parts import Chart
from app.web.ui.units import seconds
from evaluation.metrics import BUDGET_GRID

OUTCOMES = {-1: "lost", 0: "alike", 1: "won"}
"""Of B at a task, by how much more than A it solves it."""


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
        LineCurve(f"line-{letter}", letter, label, colour, found.compared.outcomes.curve(place, run.budget_s))
        for place, (letter, label, colour, run) in enumerate(parts)
    ]


def draw_gap(compared: RunComparison, span: tuple[float, float], series: int) -> Chart:
    """The difference between two runs in Pass@First with its band at every budget."""
    low, high = span
    inside = {x for x in (*BUDGET_GRID, compared.budget_s) if low < x < high}
    budgets = [low, *sorted(inside), high]
    band = [compared.found.compared.decide("first", 1, 0, budget) for budget in budgets]
    return difference(
        budgets,
        band,
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
