"""Values that the page of an overlay shows: its budget, the curves, the settings and the tasks that differ."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import numpy as np

from app.comparison.loading import Overlaid
from app.comparison.pair import RunComparison
from app.core.errors import BadInputError
from app.runs.colours import series_of
from app.runs.options import options_of
from app.runs.schemas import RunOptions
from app.web.ui import opening
from app.web.ui.charts.comparison import LineCurve
from app.web.ui.units import seconds

OUTCOMES = {-1: "lost", 0: "alike", 1: "won"}
"""Of B at a task, by how much more than A it solves it."""


def compute_curves(found: Overlaid, numbers: Mapping[uuid.UUID, int]) -> list[LineCurve]:
    """The curves of all runs over the common tasks; `numbers` are the numbers of the runs (app/runs/colours.py)."""
    colours = series_of([numbers[run.id] for run in found.runs])
    parts = zip(found.letters, found.labels, colours, found.runs, strict=True)
    return [
        LineCurve(f"line-{letter}", letter, label, colour, found.compared.outcomes.curve(place, run.budget_s))
        for place, (letter, label, colour, run) in enumerate(parts)
    ]


def find_differing(compared: RunComparison) -> list[tuple[str, str, str]]:
    """(task, outcome of B in Pass@First, in Pass@All) of the tasks that the runs solve differently.

    Those that only A solves come first, by Pass@First, then by Pass@All; then those that only B solves.
    """
    first, every = (of[1].astype(np.int64) - of[0] for of in compared.found.compared.outcomes.at(compared.budget_s))
    order = sorted(np.flatnonzero(first | every), key=lambda task: (first[task], every[task]))
    return [(compared.found.task_ids[task], OUTCOMES[first[task]], OUTCOMES[every[task]]) for task in order]


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


def require_measured(found: Overlaid, budget_s: float | None) -> None:
    """Raises BadInputError for a budget past the shortest of the runs."""
    if budget_s is not None and budget_s > found.longest_s:
        _, letter = min(zip(found.runs, found.letters, strict=True), key=lambda pair: pair[0].budget_s)
        raise BadInputError(
            f"budget is {budget_s:g}: run {letter} stopped at {seconds(found.longest_s)}, so give at most that or "
            "leave the run out",
            "budget",
        )
