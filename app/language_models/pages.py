"""The models page."""

from __future__ import annotations

from flask import Blueprint, render_template

from app.db.types import utcnow
from app.http.web import context, session
from app.language_models import cached
from app.workers import service as workers
from app.workers.service import is_alive

bp = Blueprint("models", __name__)


@bp.get("/models")
def index() -> str:
    """The models of the registry and of the cache: which are ready, and which a worker holds in memory."""
    alive = [worker for worker in workers.list_workers(session()) if is_alive(worker, utcnow())]
    return render_template(
        "language_models/index.html",
        cache=cached.read(context().settings.cache_dir),
        loaded={worker.model for worker in alive},
        loading={worker.loading for worker in alive},
    )
