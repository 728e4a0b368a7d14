"""What belongs to no domain: the About page, the reference studies, the theme, and the template filters."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from app.core.states import Scope
from app.leaderboard.columns import COLUMNS
from app.runs.clock import MAX_DRIFT, MAX_LOST_SHARE
from app.studies.loading import load_reference_studies
from app.web.http.request_context import get_context
from app.web.http.security import require_scope
from app.web.ui import display

bp = Blueprint("site", __name__)
bp.record_once(lambda state: display.register(state.app))


@bp.app_context_processor
def _theme() -> dict[str, Any]:
    chosen = request.cookies.get("theme")
    return {"theme": chosen if chosen in ("light", "dark") else None}


@bp.get("/about")
def about() -> str:
    """Defines every figure the pages show."""
    return render_template("site/about.html", columns=COLUMNS, MAX_DRIFT=MAX_DRIFT, MAX_LOST_SHARE=MAX_LOST_SHARE)


@bp.post("/reference")
@require_scope(Scope.SUBMIT)
def load_results() -> AnyResponse:
    """Loads the reference studies of this installation, and shows the first page."""
    load_reference_studies(get_context())
    return redirect(url_for("first_page.index"), 303)
