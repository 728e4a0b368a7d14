"""The workers page."""

from __future__ import annotations

from flask import Blueprint, render_template

from app.core.db.clock import read_database_time
from app.web.http.request_context import get_session
from app.workers import service

bp = Blueprint("workers", __name__)


@bp.get("/workers")
def index() -> str:
    """The workers heard of within a day, last heard first."""
    now = read_database_time(get_session())
    rows = [
        (worker, service.is_alive(worker, now), max((now - worker.last_seen_at).total_seconds(), 0.0))
        for worker in service.list_workers(get_session())
    ]
    return render_template("workers/index.html", rows=rows)
