"""The leaderboard page: every ended run at a chosen budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import structlog
from flask import Blueprint, Response, render_template, request

from app.annotations.pages import asks_for_archived
from app.core.errors import BadInputError
from app.core.states import OPEN_RUN_STATES
from app.leaderboard import board
from app.leaderboard.answer import ENOUGH, Card, Cards, newest_run
from app.leaderboard.columns import COLUMNS, format_csv
from app.leaderboard.entries import Entries, Entry
from app.leaderboard.service import Row, ranked
from app.runs.forms import parse_budget
from app.runs.repository import RunFilter, list_runs
from app.studies.loading import reference_to_load
from app.studies.sentences import describe_answer
from app.web.http.web import context, ids_in, kept, session
from evaluation.metrics import BUDGET_GRID
from evaluation.studies.analysis import study_budgets

bp = Blueprint("leaderboard", __name__)
log = structlog.get_logger(__name__)

MIN_TASKS = 50  # with fewer, the interval of a share is wider than 25 points


@bp.get("/")
def index() -> str:
    """The answer and all groups at `?budget=` seconds (default: where the runs differ most), ordered by `?sort=`."""
    error = None
    try:
        budget = parse_budget(request.args.get("budget"))
    except BadInputError as problem:
        error, budget = str(problem), None
    dataset, target = request.args.get("dataset", ""), request.args.get("target", "")
    archived = asks_for_archived()
    everything = kept(Entries).read(session())
    listed = [run for run in everything if archived or not run.archived]
    answer, failed = _answer(everything, dataset)
    budget = budget or (answer.opening_s if answer else max((run.budget_s for run in listed), default=10.0))
    sort = request.args.get("sort", "first")
    sort = sort if sort in board.SORTS else "first"
    rows = ranked(listed, budget, dataset=dataset or None, target=target or None, archived=archived)
    whole = request.args.get("rows") == "all"
    groups, lead, left_out = board.arrange_groups(
        rows, budget, sort, whole=whole, answered=set(answer.runs.values()) if answer else ()
    )
    return render_template(
        "leaderboard/index.html",
        answer=answer,
        **_say(answer, budget),
        failed=failed,
        too_few=None if answer and answer.measured_here else newest_run(everything, dataset),
        enough=ENOUGH,
        everything=bool(everything),
        groups=groups,
        lead=lead,
        left_out=left_out,
        budget=budget,
        grid=_grid(rows, answer),
        sort=sort,
        sort_label=board.SORTS[sort],
        whole=whole,
        columns=COLUMNS,
        dataset=dataset,
        target=target,
        datasets=sorted({run.dataset for run in listed}),
        targets=sorted({run.target for run in listed}),
        archived=archived,
        any_archived=any(run.archived for run in everything),
        all_archived=bool(everything) and not listed,
        error=error,
        reference=not everything and reference_to_load(context()),
        min_tasks=MIN_TASKS,
        nothing_at_all=not everything and answer is None and not failed,
        working=0 if everything or answer else len(list_runs(session(), RunFilter(states=OPEN_RUN_STATES))),
    )


@bp.get("/leaderboard.csv")
def csv() -> Response:
    """The rows at `?budget=` seconds as CSV, with `?runs=` of these runs alone; unranked runs have a label."""
    budget = parse_budget(request.args.get("budget"))
    dataset, target = request.args.get("dataset") or None, request.args.get("target") or None
    everything = kept(Entries).read(session())
    rows = ranked(everything, budget, dataset=dataset, target=target, archived=asks_for_archived())
    if "runs" in request.args:
        only = set(ids_in("runs", request.args))
        rows = [row for row in rows if row.run.id in only]
    return Response(
        format_csv(rows),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": "attachment; filename=leaderboard.csv"},
    )


def _answer(everything: Sequence[Entry], dataset: str) -> tuple[Card | None, bool]:
    """(the answer, whether it cannot be computed): the runs below it still can be shown."""
    try:
        return kept(Cards).read(session(), everything, dataset), False
    except Exception:
        log.exception("the answer of the first page could not be computed")
        return None, True


def _say(answer: Card | None, budget: float) -> dict[str, Any]:
    """The answer at the budget, and its sentences; past what was measured there is none."""
    step = answer.at(budget) if answer else None
    return {"step": step, "sentences": describe_answer(step, answer.over) if answer and step else []}


def _grid(rows: Sequence[Row], answer: Card | None) -> list[float]:
    """The positions of the slider: the answer's budgets, then round budgets up to the longest of the rows."""
    of_answer = study_budgets(answer.compared.end_s) if answer else ()
    longest = max((row.run.budget_s for row in rows), default=BUDGET_GRID[0])
    return [*of_answer, *(b for b in study_budgets(longest) if not of_answer or b > of_answer[-1])]
