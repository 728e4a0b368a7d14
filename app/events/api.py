"""GET /api/v1/runs/ID/events."""

from __future__ import annotations

import uuid

from flask import Blueprint, Response, request

from app.events import sse
from app.operations import EVENTS, operation
from app.runs.repository import get_run
from app.web import context

bp = Blueprint("events_api", __name__, url_prefix="/api/v1")


@bp.get("/runs/<uuid:run_id>/events")
@operation({200: EVENTS})
def events(run_id: uuid.UUID) -> Response:
    """A run's events as they happen, resumed by Last-Event-ID; their types are in docs/api.md."""
    with context().database.read() as session:
        get_run(session, run_id)
    return sse.response(context(), run_id, request.headers.get("Last-Event-ID"))
