"""Values that the pages of a study show, computed from its analysis: names, the answer at a budget, arms, charts."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from app.core.states import RunState
from app.runs.colours import series_of
from app.runs.labels import setting_words, short_labels
from app.studies.analysis import StudyAnalysis
from app.studies.models import Study, StudyArm
from app.studies.progress import ArmProgress, remaining_s
from app.web.ui import opening
from app.web.ui.charts.comparison import LineCurve, choose_figure, draw_comparison
from app.web.ui.charts.parts import Chart
from app.web.ui.units import counted
from evaluation.studies.analysis import Analysis, ArmCurve

Interval = tuple[float, float]


@dataclass(frozen=True)
class ArmLine:
    """One arm as a line of a table: its short name, how far it is, and its shares at the page's budget.

    `left_s` is an estimate of its decoding left, in seconds, None before its first task. The shares come with Wilson's
    intervals; they are None for an arm that the analysis leaves out. `notes` say what to know of its figures.
    """

    arm: StudyArm
    label: str
    progress: ArmProgress
    left_s: float | None
    first: tuple[float, Interval] | None
    every: tuple[float, Interval] | None
    notes: tuple[str, ...]


def short_names(study: Study) -> dict[str, str]:
    """The label of each arm, by its name."""
    names = [arm.name for arm in study.arms]
    labels = short_labels(names, [setting_words(run) for run in study.runs], [run.created_at for run in study.runs])
    return dict(zip(names, labels, strict=True))


def opening_budget(found: Analysis) -> float:
    """The budget in seconds at which a page opens."""
    return opening.opening_budget([one.curve for one in found.curves], found.budgets[-1])


def slider_budgets(found: Analysis) -> tuple[float, ...]:
    """The round budgets from just below where the first arm solves a task, and the study's own."""
    solved = [k for k, budget in enumerate(found.budgets) if any(one.curve.at(budget)[1] for one in found.curves)]
    return found.budgets[max(min(solved, default=0) - 1, 0) :]


def arm_lines(
    study: Study, said: StudyAnalysis, progress: Mapping[uuid.UUID, ArmProgress], budget: float
) -> list[ArmLine]:
    """A line for each arm, in the order of the study."""
    labels = short_names(study)
    curves: dict[str, ArmCurve] = {curve.arm: curve for curve in said.found.curves} if said.found else {}
    lines = []
    for arm in study.arms:
        curve, first, every = curves.get(arm.name), None, None
        if curve is not None:
            first, every = curve.at(budget)
        left_s = remaining_s([arm], progress)
        notes = tuple(_notes(study, arm, labels))
        lines.append(ArmLine(arm, labels[arm.name], progress[arm.run_id], left_s, first, every, notes))
    return lines


def _notes(study: Study, arm: StudyArm, labels: dict[str, str]) -> Iterator[str]:
    if arm.dropped_after is not None and arm.dropped_by is not None:
        better = labels[study.arms[arm.dropped_by].name]
        yield f"Dropped after {counted(arm.dropped_after, 'task')}: {better} is better at every budget of interest."
    if arm.run.state is RunState.FAILED:
        yield f"Failed: {arm.run.error or 'no reason is known'}"
    if guests := arm.run.measured.in_guest_samples:
        yield f"{guests} verdicts were given in-guest, where a program can forge its verdict."


def draw_arms(study: Study, found: Analysis, budget: float, numbers: Mapping[uuid.UUID, int]) -> Chart:
    """The curves of the arms; an arm has the colour of its run (app/runs/colours.py)."""
    labels = short_names(study)
    colours = series_of([numbers[arm.run_id] for arm in study.arms])
    colour_of = {arm.name: colour for arm, colour in zip(study.arms, colours, strict=True)}
    keys = {arm.name: f"arm-{arm.position}" for arm in study.arms}
    lines = [LineCurve(keys[one.arm], "", labels[one.arm], colour_of[one.arm], one.curve) for one in found.curves]
    return draw_comparison(lines, choose_figure(lines), len(found.tasks_common), budget)
