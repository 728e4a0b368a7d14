"""POST /api/v1/complete: one prompt, n samples; as they come (SSE) or all at the end (JSON)."""

from __future__ import annotations

import uuid

from flask import Blueprint, Response, request

from app.complete import service
from app.complete.schemas import CompleteSpec
from app.context import Context
from app.events import sse
from app.operations import EVENTS, JSON, operation
from app.runs import repository
from app.runs.documents import CompletionDocument
from app.runs.render import run_of, sample_of
from app.web import context

bp = Blueprint("complete_api", __name__, url_prefix="/api/v1")


@bp.post("/complete")
@operation({200: (CompletionDocument, EVENTS)})
def complete(body: CompleteSpec) -> Response | CompletionDocument:
    """Completes one prompt n times within a budget.

    Streams the run's events for `Accept: text/event-stream`; otherwise answers when every sample is there.
    """
    ctx = context()
    if request.accept_mimetypes.best_match([JSON, EVENTS]) == EVENTS:
        run_id = service.submit(ctx, body)
        answer = sse.response(ctx, run_id, None)
        answer.headers["Content-Location"] = f"/api/v1/runs/{run_id}"
        return answer
    sse.take_slot(ctx)  # it holds a thread of the web process as a stream does
    try:
        return _whole(ctx, service.submit(ctx, body))
    finally:
        ctx.streams.release()


def _whole(ctx: Context, run_id: uuid.UUID) -> CompletionDocument:
    """The completion, once it has ended."""
    for _ in sse.follow(ctx, run_id):
        pass
    with ctx.database.read() as session:
        found = run_of(repository.get_run(session, run_id))
        tasks = repository.tasks_with_samples(session, run_id)
        return CompletionDocument(
            run=found.run,
            figures=found.figures,
            samples=[sample_of(t.task.task_id, s) for t in tasks for s in t.samples],
        )
