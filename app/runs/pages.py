"""Pages of runs: the list, one run with its tabs, one task, and the form for a new one."""

from __future__ import annotations

import math
import uuid
from collections.abc import Sequence
from typing import Any

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from app.annotations.pages import AnnotationPages, is_asking_for_archived
from app.core.errors import BadInputError
from app.core.states import OPEN_RUN_STATES, RunState, Scope
from app.datasets import repository as datasets
from app.datasets.service import BUILTIN
from app.language_models import service as models
from app.runs import caveats, clock, configuration, failures, presentation, repository, service
from app.runs import figures as run_figures
from app.runs.forms import (
    build_form_fields,
    build_form_values,
    get_field_labels,
    map_field_error,
    parse_budget,
    parse_form,
)
from app.runs.models import Run, RunTask
from app.runs.options import Fieldset
from app.runs.results import Figures
from app.runs.schemas import RunSpec
from app.runs.status import describe_run_status
from app.web.http.request_context import get_context, get_session, parse_id
from app.web.http.security import require_scope
from app.web.ui.display import pair_options
from app.web.ui.units import format_count, format_exact

bp = Blueprint("runs", __name__)

TASKS_OF_PAGE = 100
TEXTS_OF_TASK = 40  # failures first
MEMBERS_OF_TEXT = 20  # of which the figures are shown
PAGE_SIZE = 40  # at most eight screens of a phone
LABELS = get_field_labels(RunSpec)
FILTERS = {"name": "Name", "state": "State", "dataset": "Dataset"}
TABS = {"curve": "Curve", "tasks": "Tasks", "failures": "Failures", "timing": "Timing", "config": "Config"}


@bp.get("/runs", endpoint="index")
def show_runs() -> str:
    """Runs, newest first, filtered; `?before=` a run's id gives the next page."""
    asked = {key: request.args.get(key, "").replace("\0", "").strip() for key in FILTERS}
    before = parse_id("before", "run")
    archived = is_asking_for_archived()
    states = [RunState(asked["state"])] if asked["state"] in set(RunState) else []
    wanted = repository.RunFilter(states=states, dataset=asked["dataset"], name=asked["name"], archived=archived)
    runs = repository.list_runs(get_session(), wanted, limit=PAGE_SIZE + 1, before=before)
    following = runs[PAGE_SIZE - 1].id if len(runs) > PAGE_SIZE else None
    return render_template(
        "runs/index.html",
        runs=runs[:PAGE_SIZE],
        following=following,
        asked=asked,
        before=before,
        archived=archived,
        kept={key: value or None for key, value in asked.items()} | {"archived": "1" if archived else None},
        labels=FILTERS,
        states=list(RunState),
        datasets=_list_dataset_names(),
        filtered=any(asked.values()) or before is not None,
    )


@bp.get("/runs/<uuid:run_id>")
def show(run_id: uuid.UUID) -> str:
    """One tab (`?tab=`) of a run; `?budget=` seconds mark a budget on its curve."""
    run = repository.get_run(get_session(), run_id)
    tab = request.args.get("tab", "curve")
    tab = tab if tab in TABS else "curve"
    figures = run.figures or run_figures.compute_figures(run, repository.load_measured_tasks(get_session(), run_id))
    n_decoded, n_failures = repository.count_decoded_tasks_and_failed_samples(get_session(), run_id)
    counts = {"tasks": run.n_tasks, "failures": n_failures}
    asked = parse_budget(request.args.get("budget"))
    budget = min(asked or run.budget_s, run.budget_s)
    data = _build_tab(tab, run, figures, budget)
    progress = repository.compute_progress(get_session(), run)
    return render_template(
        f"runs/{tab}.html",
        run=run,
        run_open=run.state in OPEN_RUN_STATES,
        progress=progress,
        status=describe_run_status(get_context().bus, run, progress),
        n_decoded=n_decoded,
        tab=tab,
        tabs=[(key, label, counts.get(key)) for key, label in TABS.items()],
        figures=figures,
        budget=budget,
        address=format_exact(budget) if asked else None,
        left_out=caveats.describe_without_left_out(figures),
        judges=caveats.describe_judges(figures),
        **annotation_pages.build_template_values(run_id),
        **data,
    )


annotation_pages = AnnotationPages(bp, "run_id", ("tab", "budget", "show", "page"), service.annotate)


@bp.get("/runs/<uuid:run_id>/tasks/<path:task_id>", endpoint="task")
def show_task(run_id: uuid.UUID, task_id: str) -> str:
    """One task of a run: the prompt as sent and its samples, failures first.

    It shows the first TEXTS_OF_TASK texts, or with `?all` every one. `?show=` is a filter of the Tasks tab, within
    which the neighbours are; `?budget=` seconds decide what had finished.
    """
    run = repository.get_run(get_session(), run_id)
    asked = parse_budget(request.args.get("budget"))
    budget = min(asked or run.budget_s, run.budget_s)
    row = repository.load_task_with_samples(get_session(), run_id, task_id)
    squares = presentation.build_squares(row.samples, budget)
    groups = sorted(presentation.group_samples(squares), key=lambda group: group.best.sign.letter == "P")
    show = request.args.get("show", "all")
    return render_template(
        "runs/task.html",
        run=run,
        row=row,
        samples=groups if "all" in request.args else groups[:TEXTS_OF_TASK],
        n_texts=len(groups),
        most_members=MEMBERS_OF_TEXT,
        n_samples=len(squares),
        budget=budget,
        address=format_exact(budget) if asked else None,
        steps=presentation.list_steps(row),
        neighbours=_list_neighbours(row, show, budget),
        show=show,
    )


@bp.get("/runs/new", endpoint="new")
def show_form() -> str:
    """The form with the defaults, or the values in the address, or the configuration of the run `?like=`."""
    like = parse_id("like", "run")
    values = build_form_values(RunSpec, repository.get_run(get_session(), like) if like else None)
    if not like:
        values["target"] = models.list_models()[0].ref
        values |= {name: text for name, text in request.args.items() if name in values and text}
    return _render_form(values, {})


@bp.post("/runs/new")
@require_scope(Scope.SUBMIT)
def create() -> AnyResponse | tuple[str, int]:
    """Submits the run and shows it; an invalid form is shown again with its values and errors."""
    spec, errors = parse_form(RunSpec, request.form, LABELS)
    if spec is not None:
        try:
            return redirect(url_for("runs.show", run_id=service.submit(get_context(), spec)), 303)
        except BadInputError as problem:
            errors = map_field_error(problem, LABELS)
    return _render_form(dict(request.form), errors), 422


@bp.post("/runs/<uuid:run_id>/cancel")
@require_scope(Scope.SUBMIT)
def cancel(run_id: uuid.UUID) -> AnyResponse:
    """Cancels the run."""
    service.cancel(get_context(), run_id)
    return redirect(url_for("runs.show", run_id=run_id), 303)


@bp.post("/runs/<uuid:run_id>/resume")
@require_scope(Scope.SUBMIT)
def resume(run_id: uuid.UUID) -> AnyResponse:
    """Queues the tasks that the run has not finished."""
    service.resume(get_context(), run_id)
    return redirect(url_for("runs.show", run_id=run_id), 303)


def _build_tab(tab: str, run: Run, figures: Figures, budget: float) -> dict[str, Any]:
    if tab == "curve":
        return _build_curve_tab(run, figures, budget)
    if tab == "tasks":
        return _build_tasks_tab(repository.load_measured_tasks(get_session(), run.id), budget)
    if tab == "failures":
        return {"causes": failures.find_causes(get_session(), run.id), "max_shown": failures.MAX_SHOWN}
    if tab == "timing":
        tasks = repository.load_tasks(get_session(), run.id)
        return {
            "timing": presentation.build_timing(run, tasks, figures),
            "lost_share": clock.compute_lost_share,
        }
    api = f"/api/v1/runs/{run.id}"
    downloads = [("Run and figures, JSON", api), ("Samples, JSON lines", f"{api}/export")]
    return {
        "configuration": configuration.list_configuration(run),
        "environment": configuration.list_environment(run),
        "downloads": downloads,
    }


def _build_curve_tab(run: Run, figures: Figures, budget: float) -> dict[str, Any]:
    if run.curve:
        curve = run_figures.load_stored_curve(run.curve)
    else:
        curve = run_figures.compute_curve(run, repository.load_measured_tasks(get_session(), run.id))
    n_tasks = figures.tasks
    note = f"Over {format_count(n_tasks, 'graded task')}; the band is Wilson's 95 % interval of Pass@First."
    return {
        "scores": presentation.build_scores(curve, figures, budget),
        "chart": presentation.draw_curve(curve, n_tasks, budget) if curve.budgets else None,
        "chart_note": note,
    }


def _build_tasks_tab(tasks: Sequence[RunTask], budget: float) -> dict[str, Any]:
    groups = presentation.group_task_lines(presentation.build_task_lines(tasks, budget))
    show = request.args.get("show", "all")
    show = show if show in groups else "all"
    found = groups[show]
    page = _parse_page_number(len(found))
    rows = found[(page - 1) * TASKS_OF_PAGE : page * TASKS_OF_PAGE]
    used = {s.sign for row in rows for s in row.squares}
    return {
        "rows": rows,
        "show": show,
        "page": page,
        "n_pages": max(1, math.ceil(len(found) / TASKS_OF_PAGE)),
        "signs": sorted(used, key=lambda s: s.name),
        "filters": [(key, label, len(groups[key])) for key, label in presentation.TASK_FILTERS.items()],
    }


def _parse_page_number(n_rows: int) -> int:
    """The page that `?page=` asks for, one that there is."""
    asked = request.args.get("page", "1")[:9]
    return min(max(int(asked), 1), max(1, math.ceil(n_rows / TASKS_OF_PAGE))) if asked.isdecimal() else 1


def _list_neighbours(row: RunTask, show: str, budget: float) -> tuple[str, Sequence[str]]:
    """(label, task ids) of the filter `show` among whose tasks this one is; ("", all) if it leaves this one out."""
    if show in presentation.TASK_FILTERS and show != "all":
        tasks = repository.load_measured_tasks(get_session(), row.run_id)
        lines = presentation.group_task_lines(presentation.build_task_lines(tasks, budget))[show]
        if row.task.task_id in (ids := [line.row.task.task_id for line in lines]):
            return presentation.TASK_FILTERS[show], ids
    return "", repository.list_task_ids(get_session(), row.run_id)


def _render_form(values: dict[str, str], errors: dict[str, str]) -> str:
    fields = build_form_fields(RunSpec, {"dataset": pair_options(sorted({*BUILTIN, *_list_dataset_names()}))})
    return render_template(
        "runs/new.html",
        values=values,
        errors=errors,
        labels=LABELS,
        basic=[field for field in fields if not field.advanced],
        advanced={part: [one for one in fields if one.advanced and one.fieldset is part] for part in Fieldset},
        advanced_used=any(one.name in errors for one in fields if one.advanced) or "like" in request.args,
    )


def _list_dataset_names() -> list[str]:
    return sorted({d.name for d in datasets.list_datasets(get_session())})
