"""Pages of an overlay: choosing runs, their curves, the matrix of tasks and runs, and one task side by side."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from app.errors import BadInputError, NotFoundError
from app.http.web import session
from app.overlay import loading, pair_presentation, presentation, repository, side_by_side
from app.overlay import matrix as matrices
from app.overlay.grouping import Group, field_of, fields_that_differ, groups
from app.overlay.lines import lines_at
from app.overlay.loading import LETTERS, Overlaid
from app.overlay.pair import compare_runs
from app.overlay.presentation import opening_budget
from app.runs.colours import numbers_of
from app.runs.forms import parse_budget
from app.runs.models import Run
from app.runs.options import options_of
from app.runs.schemas import RunOptions
from app.studies.repository import in_one_study
from app.ui.display import FAILURE_SIGNS
from app.ui.units import brief_seconds, exact

bp = Blueprint("overlay", __name__)

RUNS_LISTED = 50  # to choose from; the newest
CHARACTERS_SHOWN = 165_000  # of the rows of the matrix: 164 tasks of HumanEval and 12 runs in one page below 200 kB
CELL = 42  # characters of a cell beside its address
Answer = AnyResponse | str | tuple[str, int]


@dataclass(frozen=True)
class Budget:
    """The budget of a page in seconds, and why it is not the one that was asked for."""

    seconds: float
    error: str


@bp.get("/overlay")
def index() -> Answer:
    """The runs to choose from; `?runs=` of two or more (repeated, or comma-separated) leads to their overlay.

    `?baseline=` puts one of them first. `?choose=1` shows the list with these runs selected.
    """
    selected = request.args.getlist("runs")
    if "choose" in request.args or not request.args:
        return _chooser(None, selected)
    try:
        pinned = request.args.get("baseline")
        baseline = loading.parse_id(pinned, "baseline") if pinned else None
        ids = loading.baseline_first(loading.parse_ids(selected), baseline)
    except BadInputError as problem:
        return _chooser(problem, selected)
    kept: dict[str, Any] = {
        name: request.args[name] for name in ("budget", "group", "figure") if request.args.get(name)
    }
    return redirect(url_for("overlay.show", runs=_joined(ids), **kept))


@bp.get("/overlay/<runs>")
def show(runs: str) -> Answer:
    """The curves of the runs (comma-separated ids; the first is the baseline run) and their shares at `?budget=`.

    `?group=` an option makes means over the runs with each of its values; `?figure=` chooses what the chart shows.
    Two runs are also compared: what was changed, what the paired test says, and on which tasks they differ.
    """
    try:
        found = loading.load(session(), loading.parse_ids([runs]))
    except (BadInputError, NotFoundError) as problem:
        return _chooser(problem, [runs])
    errors, field = [], None
    try:
        field = field_of(request.args.get("group"))
    except BadInputError as problem:
        errors.append(str(problem))
    budget = _budget(found)
    lines = groups(found.runs, found.letters, field)
    ids = [run.id for run in found.runs]
    curves = presentation.curves(found, lines, numbers_of(session(), ids))
    figure = next((key for key in presentation.FIGURES if key == request.args.get("figure")), None)
    drawn_figure = figure or ("both" if len(lines) <= presentation.FEW else "first")
    not_in_turn = None if in_one_study(session(), ids) else presentation.NOT_IN_TURN
    pair: dict[str, Any] = {}
    if found.letters == LETTERS[:2] and field is None:
        compared = compare_runs(session(), found.runs[0], found.runs[1], budget.seconds)
        pair, not_in_turn = pair_presentation.page(compared, curves), pair_presentation.not_in_turn(compared)
    chart = presentation.chart(curves, drawn_figure, budget.seconds, span=pair.get("span"), marks=pair.get("marks", ()))
    grid = presentation.slider_budgets(curves, chart, budget.seconds)
    return render_template(
        "overlay/curves.html",
        **_frame(found, runs, budget, errors),
        notes=[*presentation.notes(found, lines, field, not_in_turn), *pair.get("trust", ())],
        pair=pair,
        field=field,
        fields=_fields(found, field),
        figure=figure,
        drawn_figure=drawn_figure,
        figures=presentation.FIGURES,
        chart=chart,
        grid=grid,
        readouts=presentation.readouts(curves, grid),
        lines=lines_at(found, lines, budget.seconds),
        means={line.key: presentation.spread_words(found, line) for line in lines},
        letters_of={line.key: _letters(found, line) for line in lines},
        settings=[] if pair else presentation.settings(found),
        pins=[_joined([one, *(other for other in ids if other != one)]) for one in ids],
        without=[_joined([other for other in ids if other != one]) for one in ids] if len(ids) > 2 else None,
    )


@bp.get("/overlay/<runs>/matrix")
def matrix(runs: str) -> Answer:
    """What each run made of each task at `?budget=`, filtered by `?only=` and `?failure=`; `?from=` a row goes on."""
    try:
        found = loading.load(session(), loading.parse_ids([runs]), details=True)
    except (BadInputError, NotFoundError) as problem:
        return _chooser(problem, [runs])
    errors: list[str] = []
    only: matrices.Only = "all"
    failure = None
    try:
        only, failure = matrices.parse_filters(request.args.get("only"), request.args.get("failure"))
    except BadInputError as problem:
        errors.append(str(problem))
    budget = _budget(found)
    made = matrices.matrix(found, budget.seconds, only, failure)
    start = _start()
    rows = _rows_that_fit(made.rows[start:], budget.seconds)
    end = start + len(rows)
    return render_template(
        "overlay/matrix.html",
        **_frame(found, runs, budget, errors),
        notes=[f"Left out: {problem}." for problem in found.left_out],
        kept=only,
        failure=failure,
        made=made,
        filters=matrices.ONLY,
        failure_signs=FAILURE_SIGNS,
        signs=matrices.signs_of(made.rows),
        rows=rows,
        start=start,
        following=end if end < len(made.rows) else None,
    )


@bp.get("/overlay/<runs>/task")
def task(runs: str) -> Answer:
    """The samples of the task `?id=` in each run, equal ones together, and two of them (`?a=`, `?b=`) line by line.

    `?text=raw` shows them as the model wrote them, `?all=1` every different text.
    """
    try:
        ids = loading.parse_ids([runs])
    except BadInputError as problem:
        return _chooser(problem, [runs])
    task_id = request.args.get("id", "").replace("\0", "")
    known = repository.runs(session(), ids)
    side_by_side.check_size(known.values())
    rows = repository.rows_of_task(session(), ids, task_id)
    if not rows:
        raise NotFoundError(f"none of these runs has a task {task_id[:60]!r}: choose one in the matrix")
    letters = [letter for letter, run_id in zip(LETTERS, ids, strict=False) if run_id in known]
    found = [known[run_id] for run_id in ids if run_id in known]
    errors: list[str] = []
    view: side_by_side.View = "program"
    budget_s = longest = min(run.budget_s for run in found)
    try:
        budget_s = min(parse_budget(request.args.get("budget")) or longest, longest)
        view = side_by_side.parse_view(request.args.get("text"))
    except BadInputError as problem:
        errors.append(str(problem))
    columns = side_by_side.columns(groups(found, letters, None), found, rows, budget_s, view)
    pair = None
    try:
        pair = side_by_side.pair(columns, request.args.get("a"), request.args.get("b"), view)
    except BadInputError as problem:
        errors.append(str(problem))
        pair = side_by_side.pair(columns, None, None, view)
    return render_template(
        "overlay/task.html",
        runs=runs,
        task=next(iter(rows.values())).task,
        budget=budget_s,
        errors=errors,
        view=view,
        views=side_by_side.VIEWS,
        columns=columns,
        whole="all" in request.args,
        groups_shown=side_by_side.GROUPS_SHOWN,
        characters=side_by_side.CHARACTERS_SHOWN,
        pair=pair,
        choices=side_by_side.choices(columns),
        missing=len(ids) - len(found),
    )


@bp.get("/compare")
def compare() -> AnyResponse:
    """The former address of an overlay of two runs: `?a=` the baseline run and `?b=`, at `?budget=` seconds."""
    a, b, budget = (request.args.get(name) or None for name in ("a", "b", "budget"))
    if a and b:
        return redirect(url_for("overlay.show", runs=f"{a},{b}", budget=budget), 308)
    return redirect(url_for("overlay.index", runs=a or b, choose=1), 308)


def _frame(found: Overlaid, runs: str, budget: Budget, errors: Sequence[str]) -> dict[str, Any]:
    """What the pages of curves and matrix both show."""
    return {
        "found": found,
        "runs": runs,
        "names": groups(found.runs, found.letters, None),
        "budget": budget.seconds,
        "errors": [*errors, *([budget.error] if budget.error else [])],
    }


def _budget(found: Overlaid) -> Budget:
    """The budget that the address names, at most the shortest of the runs; without one the usual one."""
    try:
        asked = parse_budget(request.args.get("budget"))
    except BadInputError as problem:
        return Budget(opening_budget(found), str(problem))
    return Budget(min(asked or opening_budget(found), found.longest_s), presentation.too_long(found, asked))


def _rows_that_fit(rows: Sequence[matrices.TaskRow], budget_s: float) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """The first rows that one page has room for: task id, address of the task, and class and text of each cell."""
    made: list[tuple[str, str, list[tuple[str, str]]]] = []
    left = CHARACTERS_SHOWN
    for row in rows:
        address = f"task?id={quote_plus(row.task_id, safe='/')}&budget={exact(budget_s)}"
        left -= len(row.cells) * (len(address) + CELL)
        if made and left < 0:
            break
        made.append((row.task_id, address, [(cell.sign.family[0], _cell_text(cell)) for cell in row.cells]))
    return made


def _start() -> int:
    text = request.args.get("from", "0")
    return int(text) if len(text) < 10 and text.isascii() and text.isdigit() else 0


def _cell_text(cell: matrices.Cell) -> str:
    return cell.sign.letter + ("" if cell.first_correct_s is None else f" {brief_seconds(cell.first_correct_s)}")


def _fields(found: Overlaid, field: str | None) -> list[tuple[str, str]]:
    """What the list of options to group by offers: those in which the runs differ, and the present one."""
    differing = fields_that_differ(found.runs)
    present = [(field, options_of(RunOptions)[field].label)] if field else []
    return list(dict.fromkeys([*differing, *present]))


def _letters(found: Overlaid, group: Group) -> str:
    return ", ".join(found.letters[place] for place in group.members)


def _chooser(problem: BadInputError | NotFoundError | None, selected: Sequence[str]) -> str | tuple[str, int]:
    """The list of runs to select from; the runs of the address are selected and come first."""
    wanted = _known_ids(selected)
    newest: Sequence[Run] = repository.newest_with_figures(session(), RUNS_LISTED)
    listed = {run.id: run for run in newest}
    missing = [run_id for run_id in wanted if run_id not in listed]
    older = repository.runs(session(), missing).values() if missing else ()
    page = render_template(
        "overlay/index.html",
        error=str(problem) if problem else "",
        listed=sorted([*older, *newest], key=lambda run: run.id not in wanted),
        selected=wanted,
        most=loading.MOST_RUNS,
    )
    return (page, problem.status) if problem else page


def _known_ids(texts: Sequence[str]) -> list[uuid.UUID]:
    """The ids among the texts, so that a list can select them although another text is wrong."""
    found = []
    for word in (word for text in texts for word in text.split(",")):
        try:
            found.append(uuid.UUID(word.strip()))
        except ValueError:
            continue
    return found[: 2 * loading.MOST_RUNS]


def _joined(ids: Sequence[uuid.UUID]) -> str:
    return ",".join(map(str, ids))
