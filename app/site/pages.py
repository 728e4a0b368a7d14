"""What belongs to no domain: the About page, the theme, and the filters every template uses."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, render_template, request

from app.leaderboard.columns import COLUMNS
from app.runs.clock import DRIFT, LOST_TO_OTHERS
from app.ui import display

bp = Blueprint("site", __name__)
bp.record_once(lambda state: display.register(state.app))


@bp.app_context_processor
def _theme() -> dict[str, Any]:
    chosen = request.cookies.get("theme")
    return {"theme": chosen if chosen in ("light", "dark") else None}


@bp.get("/about")
def about() -> str:
    """Defines every figure the pages show."""
    return render_template("site/about.html", columns=COLUMNS, DRIFT=DRIFT, LOST_TO_OTHERS=LOST_TO_OTHERS)
