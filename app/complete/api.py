"""POST /api/v1/complete: one prompt, n samples; as they come (SSE) or all at the end (JSON)."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, request

from app.complete import service
from app.complete.schemas import CompleteSpec
from app.events import sse
from app.runs import repository
from app.runs.api import json_body
from app.runs.render import run_document, sample_document
from app.runs.schemas import parse_spec
from app.web import context

bp = Blueprint("complete_api", __name__, url_prefix="/api/v1")


@bp.post("/complete")
def complete() -> Response | dict[str, Any]:
    """Streams events for `Accept: text/event-stream`; otherwise answers when every sample is there."""
    ctx = context()
    run_id = service.submit(ctx, parse_spec(CompleteSpec, json_body()))
    if request.accept_mimetypes.best_match(["application/json", "text/event-stream"]) == "text/event-stream":
        answer = sse.response(ctx, run_id, None)
        answer.headers["Content-Location"] = f"/api/v1/runs/{run_id}"
        return answer
    for _ in sse.follow(ctx, run_id):
        pass
    with ctx.database.read() as session:
        run = repository.get_run(session, run_id)
        tasks = repository.tasks_with_samples(session, run_id)
        return {**run_document(run), "samples": [sample_document(t.task.task_id, s) for t in tasks for s in t.samples]}
