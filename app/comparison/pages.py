"""Pages of an overlay: its curves, the matrix of tasks and runs, and one task side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote_plus

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from app.comparison import loading, report
from app.comparison import matrix as matrices
from app.comparison.caution import describe_caveats
from app.comparison.loading import LETTERS, Overlay
from app.comparison.pair import RunComparison, compare
from app.core.errors import BadInputError, NotFoundError
from app.runs.forms import parse_budget
from app.runs.labels import label_runs
from app.runs.outcomes import read_tasks
from app.runs.presentation import build_squares
from app.web.http.request_context import get_session
from app.web.ui.charts.chart import FIGURES, LineCurve, choose_figure, choose_opening_budget, draw_comparison
from app.web.ui.units import format_brief_seconds, format_exact


def compute_curves(overlay: Overlay) -> list[LineCurve]:
    """The curves of all runs over the common tasks."""
    parts = zip(overlay.letters, overlay.labels, overlay.runs, strict=True)
    return [
        LineCurve(f"line-{letter}", letter, label, place, overlay.paired_runs.outcomes.build_curve(place, run.budget_s))
        for place, (letter, label, run) in enumerate(parts)
    ]


def find_differing(compared: RunComparison) -> list[tuple[str, ...]]:
    """(task, outcome of B in Pass@First, in Pass@All) of the tasks that the runs solve differently.

    Those that only A solves come first.
    """
    first, every = compared.first, compared.all
    rows = [
        (task, *("lost" if task in one.losses else "won" if task in one.wins else "alike" for one in (first, every)))
        for task in dict.fromkeys((*first.losses, *every.losses, *every.wins, *first.wins))
    ]
    return sorted(rows, key=lambda row: ("lost", "alike", "won").index(row[1]))


bp = Blueprint("overlay", __name__)

CELLS_SHOWN = 2000  # of the matrix: 164 tasks of HumanEval and 12 runs in one page below 200 kB


@bp.get("/overlay")
def index() -> AnyResponse:
    """`?runs=` of two or more (repeated, or comma-separated) leads to their overlay; no query, to the list of runs.

    `?baseline=` puts one of them first.
    """
    if not request.args:
        return redirect(url_for("runs.index"))
    pinned = request.args.get("baseline")
    baseline = loading.parse_id(pinned, "baseline") if pinned else None
    ids = loading.put_baseline_first(loading.parse_ids(request.args.getlist("runs")), baseline)
    kept: dict[str, Any] = {name: request.args[name] for name in ("budget", "figure") if request.args.get(name)}
    return redirect(url_for("overlay.show", runs=_join_ids(ids), **kept))


@bp.get("/overlay/<runs>")
def show(runs: str) -> str:
    """The curves of the runs (comma-separated ids; the first is the baseline run) and their shares at `?budget=`.

    `?figure=` chooses what the chart shows. Two runs are also compared: what was changed, what the paired test says,
    and on which tasks they differ.
    """
    overlay = loading.load_overlay(get_session(), loading.parse_ids([runs]))
    errors: list[str] = []
    budget = _choose_budget(overlay, errors)
    ids = [run.id for run in overlay.runs]
    curves = compute_curves(overlay)
    figure = next((key for key in FIGURES if key == request.args.get("figure")), None)
    drawn_figure = figure or choose_figure(curves)
    chart = draw_comparison(curves, drawn_figure, len(overlay.task_ids), budget)
    if overlay.letters == LETTERS[:2]:
        details = _describe_pair(overlay, budget)
    else:
        details = {"notes": describe_caveats(overlay)}
    return render_template(
        "overlay/curves.html",
        **_build_frame(overlay, runs, budget, errors),
        **details,
        changes=report.build_changes_table(overlay),
        times=report.build_times_table(overlay),
        figure=figure,
        drawn_figure=drawn_figure,
        figures=FIGURES,
        chart=chart,
        grid=chart.budgets,
        paired=overlay.paired_runs,
        pins=[_join_ids(loading.put_baseline_first(ids, one)) for one in ids],
        without=[_join_ids([other for other in ids if other != one]) for one in ids] if len(ids) > 2 else None,
    )


def _describe_pair(overlay: Overlay, budget_s: float) -> dict[str, Any]:
    pair = compare(overlay, [read_tasks(get_session(), run.id) for run in overlay.runs], budget_s)
    return {
        "pair": pair,
        "notes": report.describe_notes(pair),
        "speed": report.describe_speed(pair),
        "differing": find_differing(pair),
    }


@bp.get("/overlay/<runs>/matrix")
def matrix(runs: str) -> str:
    """What each run made of each task at `?budget=`, filtered by `?only=`; `?from=` a row goes on."""
    overlay = loading.load_overlay(get_session(), loading.parse_ids([runs]), details=True)
    errors: list[str] = []
    only: matrices.RowFilter = next(
        (key for key in matrices.ROW_FILTER_LABELS if key == request.args.get("only")), "all"
    )
    budget = _choose_budget(overlay, errors)
    matrix_view = matrices.build_matrix(overlay, budget, only)
    text = request.args.get("from", "0")
    start = int(text) if len(text) < 10 and text.isascii() and text.isdigit() else 0
    end = start + max(CELLS_SHOWN // len(overlay.runs), 1)
    rows = [_describe_row(row, budget) for row in matrix_view.rows[start:end]]
    return render_template(
        "overlay/matrix.html",
        **_build_frame(overlay, runs, budget, errors),
        notes=[f"Left out: {problem}." for problem in overlay.left_out],
        only=only,
        matrix_view=matrix_view,
        filters=matrices.ROW_FILTER_LABELS,
        signs=matrices.list_signs(matrix_view.rows),
        rows=rows,
        start=start,
        following=end if end < len(matrix_view.rows) else None,
    )


@bp.get("/overlay/<runs>/task")
def task(runs: str) -> str:
    """The sample of the task `?id=` that each run chooses at `?budget=`; else its first one, which is not finished."""
    ids = loading.parse_ids([runs])
    task_id = request.args.get("id", "").replace("\0", "")
    known = loading.find_runs(get_session(), ids)
    rows = loading.load_task_rows(get_session(), ids, task_id)
    if not rows:
        raise NotFoundError(f"none of these runs has a task {task_id[:60]!r}: choose one in the matrix")
    lettered_runs = [(letter, known[run_id]) for letter, run_id in zip(LETTERS, ids, strict=False) if run_id in known]
    errors: list[str] = []
    max_budget_s = min(run.budget_s for _, run in lettered_runs)
    budget = min(_parse_budget(errors) or max_budget_s, max_budget_s)
    sides = []
    for (letter, run), label in zip(lettered_runs, label_runs([run for _, run in lettered_runs]), strict=True):
        squares = build_squares(rows[run.id].samples if run.id in rows else (), budget)
        chosen = next((square for square in squares if square.chosen), squares[0] if squares else None)
        sides.append((letter, label, run, squares, chosen))
    return render_template(
        "overlay/task.html",
        runs=runs,
        task=next(iter(rows.values())).task,
        budget=budget,
        errors=errors,
        sides=sides,
        missing=len(ids) - len(lettered_runs),
    )


def _parse_budget(errors: list[str], overlay: Overlay | None = None) -> float | None:
    """The budget (seconds) that the address names; what is wrong with it joins `errors`."""
    asked = None
    try:
        asked = parse_budget(request.args.get("budget"))
        if overlay is not None:
            overlay.require_measured(asked)
    except BadInputError as problem:
        errors.append(str(problem))
    return asked


def _choose_budget(overlay: Overlay, errors: list[str]) -> float:
    """The budget (seconds) that the address names, at most the shortest of the runs; without one the usual one."""
    asked_s, max_s = _parse_budget(errors, overlay), overlay.max_budget_s
    return min(asked_s or choose_opening_budget(overlay.paired_runs.curves, max_s), max_s)


def _build_frame(overlay: Overlay, runs: str, budget_s: float, errors: Sequence[str]) -> dict[str, Any]:
    names = list(zip(overlay.letters, overlay.labels, overlay.runs, strict=True))
    return {"overlay": overlay, "runs": runs, "names": names, "budget": budget_s, "errors": errors}


def _describe_row(row: matrices.MatrixRow, budget_s: float) -> tuple[str, str, list[tuple[str, str]]]:
    """Task id, address of the task, and class and text of each cell."""
    address = f"task?id={quote_plus(row.task_id, safe='/')}&budget={format_exact(budget_s)}"
    return row.task_id, address, [(cell.sign.family[0], _format_cell(cell)) for cell in row.cells]


def _format_cell(cell: matrices.MatrixCell) -> str:
    return cell.sign.letter + ("" if cell.first_correct_s is None else f" {format_brief_seconds(cell.first_correct_s)}")


def _join_ids(ids: Iterable[object]) -> str:
    return ",".join(map(str, ids))
