"""The first page."""

from __future__ import annotations

from collections.abc import Sequence

import structlog
from flask import Blueprint, render_template, request

from app.core.errors import BadInputError
from app.core.states import OPEN_RUN_STATES
from app.first_page.answer import AnswerSource, FirstPageAnswer
from app.first_page.answer_cache import (
    MIN_COMMON_TASKS,
    FirstPageAnswerCache,
    find_newest_run,
    find_own_code_study,
    list_sources,
)
from app.first_page.models_at_budget import ModelsAtBudget, rank_models
from app.first_page.sentences import describe_models
from app.leaderboard.entries import LeaderboardCache
from app.runs.forms import parse_budget
from app.runs.repository import RunFilter, count_runs
from app.studies.loading import has_unloaded_reference
from app.web.http.request_context import get_context, get_session, get_singleton
from app.web.ui.charts.chart import HALF, Chart, ChartCurve, draw_pass_curves
from evaluation.studies.analysis import list_study_budgets

bp = Blueprint("first_page", __name__)
log = structlog.get_logger(__name__)


@bp.get("/")
def index() -> str:
    """Which model answers how much right within `?budget=` seconds."""
    error = asked_s = None
    try:
        asked_s = parse_budget(request.args.get("budget"))
    except BadInputError as problem:
        error = str(problem)
    entries = get_singleton(LeaderboardCache).read(get_session())
    sources = list_sources(get_session(), entries)
    page_answer, has_failed = _read_page_answer(sources)
    newest = find_newest_run(entries)
    if page_answer is None:
        is_empty = not entries and not has_failed
        return render_template(
            "first_page/empty.html",
            has_failed=has_failed,
            is_empty=is_empty,
            newest=newest,
            enough=MIN_COMMON_TASKS,
            reference=has_unloaded_reference(get_context()) if is_empty else False,
            working=count_runs(get_session(), RunFilter(states=OPEN_RUN_STATES)) if is_empty else 0,
        )
    budget_s = asked_s or page_answer.opening_s
    found = rank_models(page_answer, budget_s)
    return render_template(
        "first_page/index.html",
        page_answer=page_answer,
        found=found,
        headline=describe_models(page_answer, found),
        chart=_draw_models(page_answer, found),
        budget=budget_s,
        grid=list_study_budgets(page_answer.compared.end_s),
        error=error,
        newest=None if page_answer.measured_here else newest,
        own_code=find_own_code_study(sources, page_answer),
        enough=MIN_COMMON_TASKS,
    )


def _read_page_answer(sources: Sequence[AnswerSource]) -> tuple[FirstPageAnswer | None, bool]:
    """(the answer, whether it cannot be computed)."""
    try:
        return get_singleton(FirstPageAnswerCache).read(get_session(), sources), False
    except Exception:
        log.exception("the answer of the first page could not be computed")
        return None, True


def _draw_models(page_answer: FirstPageAnswer, found: ModelsAtBudget) -> Chart:
    """The curve of each model's configuration."""
    rows = sorted(found.rows, key=lambda row: row.model)  # a model keeps its colour at every budget
    curves = [
        ChartCurve(row.model, row.curve.budgets, row.curve.pass_first, series, key=str(row.run.id))
        for series, row in enumerate(rows)
    ]
    title = "Right answers in time"
    return draw_pass_curves(curves, title, page_answer.n_tasks, budget=found.shown_s, width=HALF)
