"""Pages of an overlay: choosing runs, their curves, the matrix of tasks and runs, and one task side by side."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar
from urllib.parse import quote_plus

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from app.errors import BadInputError, NotFoundError
from app.http.web import session
from app.overlay import loading, pair_presentation, presentation, repository, side_by_side
from app.overlay import matrix as matrices
from app.overlay.grouping import field_of, fields_that_differ, groups
from app.overlay.lines import lines_at
from app.overlay.loading import LETTERS, Overlaid
from app.overlay.notes import caveats
from app.overlay.pair import compare
from app.overlay.verdicts import Terms
from app.runs.colours import numbers_of
from app.runs.forms import parse_budget
from app.runs.models import Run
from app.runs.options import options_of
from app.runs.schemas import RunOptions
from app.studies.repository import count_rivals, in_one_study
from app.ui.display import FAILURE_SIGNS
from app.ui.units import brief_seconds, exact
from decoding.suggest import one_of
from evaluation.verdicts import FAILURES

bp = Blueprint("overlay", __name__)

RUNS_LISTED = 50  # to choose from; the newest
CHARACTERS_SHOWN = 165_000  # of the rows of the matrix: 164 tasks of HumanEval and 12 runs in one page below 200 kB
CELL = 42  # characters of a cell beside its address
K = TypeVar("K", bound=str)
T = TypeVar("T")


@bp.get("/overlay")
def index() -> AnyResponse | str:
    """`?runs=` of two or more (repeated, or comma-separated) leads to their overlay; without it, to the list of runs.

    `?baseline=` puts one of them first. `?choose=1` shows the runs to choose from with these selected.
    """
    selected = request.args.getlist("runs")
    if "choose" in request.args:
        return _chooser("", selected)
    if not request.args:
        return redirect(url_for("runs.index"))
    pinned = request.args.get("baseline")
    baseline = loading.parse_id(pinned, "baseline") if pinned else None
    ids = loading.baseline_first(loading.parse_ids(selected), baseline)
    kept: dict[str, Any] = {
        name: request.args[name] for name in ("budget", "group", "figure") if request.args.get(name)
    }
    return redirect(url_for("overlay.show", runs=_joined(ids), **kept))


@bp.errorhandler(BadInputError)
@bp.errorhandler(NotFoundError)
def choose_others(problem: BadInputError | NotFoundError) -> tuple[str, int]:
    """The runs to choose from, with the reason why the runs of the address have no overlay."""
    runs = (request.view_args or {}).get("runs")
    return _chooser(str(problem), [runs] if runs else request.args.getlist("runs")), problem.status


@bp.get("/overlay/<runs>")
def show(runs: str) -> str:
    """The curves of the runs (comma-separated ids; the first is the baseline run) and their shares at `?budget=`.

    `?group=` an option makes means over the runs with each of its values; `?figure=` chooses what the chart shows.
    Two runs are also compared: what was changed, what the paired test says, and on which tasks they differ.
    """
    found = loading.load(session(), loading.parse_ids([runs]))
    errors: list[str] = []
    field = _or(None, errors, lambda: field_of(request.args.get("group")))
    budget = _budget(found, errors)
    lines = groups(found.runs, found.letters, field)
    ids = [run.id for run in found.runs]
    curves = presentation.curves(found, lines, numbers_of(session(), ids))
    figure = next((key for key in presentation.FIGURES if key == request.args.get("figure")), None)
    drawn_figure = figure or ("both" if len(lines) <= presentation.FEW else "first")
    in_turn, rivals = in_one_study(session(), ids), count_rivals(session(), ids)
    pair: dict[str, Any] = {}
    if found.letters == LETTERS[:2] and field is None:
        tasks = [repository.tasks_with_tokens(session(), run_id) for run_id in ids]
        compared = compare(found, tasks, budget, Terms(in_turn, rivals))
        pair, notes = pair_presentation.page(compared, curves), pair_presentation.pair_caveats(compared)
    else:
        notes = caveats(found, None if in_turn else presentation.NOT_IN_TURN, lines, field)
    n_tasks = len(found.task_ids)
    chart = presentation.chart(
        curves, drawn_figure, n_tasks, budget, span=pair.get("span"), marks=pair.get("marks", ())
    )
    grid = presentation.slider_budgets(curves, chart, budget)
    return render_template(
        "overlay/curves.html",
        **_frame(found, runs, budget, errors),
        notes=notes,
        pair=pair,
        field=field,
        fields=_fields(found, field),
        figure=figure,
        drawn_figure=drawn_figure,
        figures=presentation.FIGURES,
        chart=chart,
        grid=grid,
        lines=lines_at(found, lines, budget, rivals),
        made_of={line.key: presentation.made_of(found, line) for line in lines},
        settings=[] if pair else presentation.settings(found),
        pins=[_joined([one, *(other for other in ids if other != one)]) for one in ids],
        without=[_joined([other for other in ids if other != one]) for one in ids] if len(ids) > 2 else None,
    )


@bp.get("/overlay/<runs>/matrix")
def matrix(runs: str) -> str:
    """What each run made of each task at `?budget=`, filtered by `?only=` and `?failure=`; `?from=` a row goes on."""
    found = loading.load(session(), loading.parse_ids([runs]), details=True)
    errors: list[str] = []
    only = _or(None, errors, lambda: _one_of("only", matrices.ONLY)) or "all"
    failure = _or(None, errors, lambda: _one_of("failure", FAILURES))
    budget = _budget(found, errors)
    made = matrices.matrix(found, budget, only, failure)
    text = request.args.get("from", "0")
    start = int(text) if len(text) < 10 and text.isascii() and text.isdigit() else 0
    rows = _rows_that_fit(made.rows[start:], budget)
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
def task(runs: str) -> str:
    """The samples of the task `?id=` in each run, equal ones together, and two of them (`?a=`, `?b=`) line by line.

    `?text=raw` shows them as the model wrote them, `?all=1` every different text.
    """
    ids = loading.parse_ids([runs])
    task_id = request.args.get("id", "").replace("\0", "")
    known = repository.runs(session(), ids)
    side_by_side.check_size(known.values())
    rows = repository.rows_of_task(session(), ids, task_id)
    if not rows:
        raise NotFoundError(f"none of these runs has a task {task_id[:60]!r}: choose one in the matrix")
    letters = [letter for letter, run_id in zip(LETTERS, ids, strict=False) if run_id in known]
    found = [known[run_id] for run_id in ids if run_id in known]
    errors: list[str] = []
    longest = min(run.budget_s for run in found)
    budget = min(_or(None, errors, lambda: parse_budget(request.args.get("budget"))) or longest, longest)
    view = _or(None, errors, lambda: _one_of("text", side_by_side.VIEWS)) or "program"
    columns = side_by_side.columns(groups(found, letters, None), found, rows, budget, view)
    chosen = side_by_side.pair(columns, None, None, view)
    return render_template(
        "overlay/task.html",
        runs=runs,
        task=next(iter(rows.values())).task,
        budget=budget,
        errors=errors,
        view=view,
        views=side_by_side.VIEWS,
        columns=columns,
        whole="all" in request.args,
        groups_shown=side_by_side.GROUPS_SHOWN,
        characters=side_by_side.CHARACTERS_SHOWN,
        pair=_or(
            chosen, errors, lambda: side_by_side.pair(columns, request.args.get("a"), request.args.get("b"), view)
        ),
        choices=side_by_side.choices(columns),
        missing=len(ids) - len(found),
    )


def _or(default: T, errors: list[str], read: Callable[[], T]) -> T:
    """What `read` returns; the default if it raises BadInputError, whose sentence joins `errors`."""
    try:
        return read()
    except BadInputError as problem:
        errors.append(str(problem))
        return default


def _one_of(name: str, known: Iterable[K]) -> K | None:
    """The word that a parameter of the address has; None without one. Raises BadInputError for an unknown word."""
    text = request.args.get(name)
    found = next((word for word in known if word == text), None)
    if text and found is None:
        raise BadInputError(f"{name} is {text[:40]!r}: {one_of(text[:40], list(known))}", name)
    return found


def _budget(found: Overlaid, errors: list[str]) -> float:
    """The budget (seconds) that the address names, at most the shortest of the runs; without one the usual one."""
    asked = _or(None, errors, lambda: parse_budget(request.args.get("budget")))
    if words := presentation.too_long(found, asked):
        errors.append(words)
    return min(asked or presentation.opening_budget(found), found.longest_s)


def _frame(found: Overlaid, runs: str, budget_s: float, errors: Sequence[str]) -> dict[str, Any]:
    """What the pages of curves and matrix both show."""
    names = groups(found.runs, found.letters, None)
    return {"found": found, "runs": runs, "names": names, "budget": budget_s, "errors": errors}


def _rows_that_fit(rows: Sequence[matrices.MatrixRow], budget_s: float) -> list[tuple[str, str, list[tuple[str, str]]]]:
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


def _cell_text(cell: matrices.MatrixCell) -> str:
    return cell.sign.letter + ("" if cell.first_correct_s is None else f" {brief_seconds(cell.first_correct_s)}")


def _fields(found: Overlaid, field: str | None) -> list[tuple[str, str]]:
    """What the list of options to group by offers: those in which the runs differ, and the present one."""
    present = [(field, options_of(RunOptions)[field].label)] if field else []
    return list(dict.fromkeys([*fields_that_differ(found.runs), *present]))


def _chooser(error: str, selected: Sequence[str]) -> str:
    """The list of runs to select from; the runs of the address are selected and come first."""
    wanted = _known_ids(selected)
    newest: Sequence[Run] = repository.newest_with_figures(session(), RUNS_LISTED)
    missing = set(wanted) - {run.id for run in newest}
    older = repository.runs(session(), missing).values() if missing else ()
    return render_template(
        "overlay/index.html",
        error=error,
        listed=sorted([*older, *newest], key=lambda run: run.id not in wanted),
        selected=wanted,
        most=loading.MOST_RUNS,
    )


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
