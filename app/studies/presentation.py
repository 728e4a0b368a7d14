"""Values that the pages of a study show, computed from its analysis: names, budgets and the chart."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from app.runs.colours import series_of
from app.runs.labels import setting_words, short_labels
from app.studies.models import Study
from app.web.ui import opening
from app.web.ui.charts.chart import Chart
from app.web.ui.charts.comparison import LineCurve, choose_figure, draw_comparison
from evaluation.studies.analysis import Analysis


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


def draw_arms(study: Study, found: Analysis, budget: float, numbers: Mapping[uuid.UUID, int]) -> Chart:
    """The curves of the arms; an arm has the colour of its run (app/runs/colours.py)."""
    labels = short_names(study)
    colours = series_of([numbers[arm.run_id] for arm in study.arms])
    colour_of = {arm.name: colour for arm, colour in zip(study.arms, colours, strict=True)}
    keys = {arm.name: f"arm-{arm.position}" for arm in study.arms}
    lines = [LineCurve(keys[one.arm], "", labels[one.arm], colour_of[one.arm], one.curve) for one in found.curves]
    return draw_comparison(lines, choose_figure(lines), len(found.tasks_common), budget)
