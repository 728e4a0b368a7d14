"""The leaderboard page: every ended run at a chosen budget."""

from __future__ import annotations

from flask import Blueprint, render_template, request

from app.annotations.pages import is_asking_for_archived
from app.core.errors import BadInputError
from app.leaderboard import board
from app.leaderboard.columns import COLUMNS
from app.leaderboard.entries import LeaderboardCache
from app.leaderboard.service import MIN_TASKS, rank_runs
from app.runs.forms import parse_budget
from app.web.http.request_context import get_session, get_singleton
from app.web.ui.charts.chart import choose_opening_budget
from app.web.ui.units import format_exact_seconds
from evaluation.studies.analysis import list_study_budgets

bp = Blueprint("leaderboard", __name__)


@bp.get("/leaderboard")
def index() -> str:
    """All groups at `?budget=` seconds, at most the longest that was measured, ordered by `?sort=`."""
    dataset, target = request.args.get("dataset", ""), request.args.get("target", "")
    archived = is_asking_for_archived()
    everything = get_singleton(LeaderboardCache).read(get_session())
    listed = [run for run in everything if archived or not run.archived]
    longest_s = max((run.budget_s for run in listed), default=10.0)
    opening_s = choose_opening_budget([run.curve for run in listed], longest_s)
    budget, error = _parse_budget(opening_s, longest_s)
    sort = request.args.get("sort", "first")
    sort = sort if sort in board.SORTS else "first"
    rows = rank_runs(everything, budget, dataset=dataset or None, target=target or None, archived=archived)
    all_rows = request.args.get("rows") == "all"
    groups, lead = board.arrange_groups(rows, budget, sort, all_rows=all_rows)
    return render_template(
        "leaderboard/index.html",
        everything=bool(everything),
        groups=groups,
        lead=lead,
        budget=budget,
        grid=list_study_budgets(longest_s),
        sort=sort,
        sort_label=board.SORTS[sort],
        all_rows=all_rows,
        columns=COLUMNS,
        dataset=dataset,
        target=target,
        datasets=sorted({run.dataset for run in listed}),
        targets=sorted({run.target for run in listed}),
        archived=archived,
        error=error,
        min_tasks=MIN_TASKS,
    )


def _parse_budget(opening_s: float, longest_s: float) -> tuple[float, str]:
    """(seconds that the address names, what is wrong with them or ""); without any, those of `opening_s`."""
    try:
        asked_s = parse_budget(request.args.get("budget")) or opening_s
    except BadInputError as problem:
        return opening_s, str(problem)
    if asked_s > longest_s:
        return longest_s, f"no run was measured beyond {format_exact_seconds(longest_s)}"
    return asked_s, ""
