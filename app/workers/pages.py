"""The workers page."""

from __future__ import annotations

from dataclasses import dataclass

from flask import Blueprint, render_template

from app.db.types import utcnow
from app.http.web import session
from app.workers import service
from app.workers.models import Worker

bp = Blueprint("workers", __name__)


@dataclass(frozen=True)
class WorkerLine:
    """A worker and how long ago it was last heard, in seconds."""

    worker: Worker
    silent_s: float

    @property
    def alive(self) -> bool:
        """Heard of lately."""
        return self.worker.stopped_at is None and self.silent_s <= service.ALIVE_S


@bp.get("/workers")
def index() -> str:
    """The workers heard of within a day, last heard first."""
    now = utcnow()
    rows = [WorkerLine(w, max((now - w.last_seen_at).total_seconds(), 0.0)) for w in service.list_workers(session())]
    return render_template("workers/index.html", rows=rows)
