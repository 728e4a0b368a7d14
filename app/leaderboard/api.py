"""REST of the leaderboard."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, request

from app.errors import BadInput
from app.leaderboard import service
from app.runs.render import leaderboard_row
from app.web import session

bp = Blueprint("leaderboard_api", __name__, url_prefix="/api/v1")


@bp.get("/leaderboard")
def index() -> dict[str, Any]:
    """The board at `?budget=` seconds (each run's own without it), optionally of one dataset or target."""
    text = request.args.get("budget")
    try:
        budget = float(text) if text else None
    except ValueError:
        raise BadInput(f"budget is {text!r}: give seconds, such as 2.5", "budget") from None
    found = service.rows(session(), budget, dataset=request.args.get("dataset"), target=request.args.get("target"))
    return {"rows": [leaderboard_row(row) for row in found]}
