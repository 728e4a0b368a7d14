"""POST /api/v1/complete: one prompt, n samples; streamed (SSE) or all at the end (JSON)."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator

from flask import Blueprint, Response, request

from app.completions import service, waiting
from app.completions.schemas import CompletionSpec
from app.core.context import Context
from app.core.states import Scope
from app.runs import event_stream, repository
from app.runs.documents import CompletionDocument, build_run_document, build_sample_document
from app.web.http import disconnect
from app.web.http.disconnect import ClientDisconnected
from app.web.http.operations import EVENTS, JSON, declare_operation
from app.web.http.request_context import get_context
from app.web.http.security import require_scope

bp = Blueprint("complete_api", __name__, url_prefix="/api/v1")


@bp.post("/complete")
@require_scope(Scope.SUBMIT)
@declare_operation({200: (CompletionDocument, EVENTS)})
def complete(body: CompletionSpec) -> Response | CompletionDocument:
    """Completes one prompt n times within a budget.

    Streams the run's events for `Accept: text/event-stream`; otherwise answers when every sample is there. A client
    that hangs up cancels it.
    """
    ctx, disconnected = get_context(), disconnect.build_disconnect_probe(request.environ)
    with waiting.acquire_slot(ctx) as slot:
        run_id = service.submit(ctx, body)
        if request.accept_mimetypes.best_match([JSON, EVENTS]) != EVENTS:
            return _wait_for_completion(ctx, run_id, disconnected)
        slot.callback(waiting.cancel, ctx, run_id)
        answer = event_stream.build_stream_response(_stream_frames(ctx, run_id, disconnected), slot.pop_all().close)
    answer.headers["Content-Location"] = f"/api/v1/runs/{run_id}"
    return answer


def _stream_frames(ctx: Context, run_id: uuid.UUID, disconnected: ClientDisconnected) -> Iterator[str]:
    with contextlib.suppress(waiting.ClientDisconnectedError):
        yield from event_stream.format_frames(waiting.follow_completion(ctx, run_id, disconnected))


def _wait_for_completion(ctx: Context, run_id: uuid.UUID, disconnected: ClientDisconnected) -> CompletionDocument:
    """The completion, once it has ended. Raises ClientDisconnectedError."""
    for _ in waiting.follow_completion(ctx, run_id, disconnected):
        pass
    with ctx.database.read() as session:
        found = build_run_document(repository.get_run(session, run_id))
        tasks = repository.load_tasks_with_samples(session, run_id)
        return CompletionDocument(
            run=found.run,
            figures=found.figures,
            samples=[build_sample_document(t.task.task_id, s) for t in tasks for s in t.samples],
        )
