"""/v1/completions and /v1/models, for clients of OpenAI's API."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any

import structlog
from flask import Blueprint, Response, request
from pydantic import ValidationError
from pydantic_core import from_json
from werkzeug.exceptions import HTTPException

from app.completions import waiting
from app.errors import BadInput, BasslineError, NotFound
from app.http import disconnect, idempotency
from app.http.schemas import bad_input
from app.http.web import context, note_retry_after
from app.language_models import allowed
from app.openai import service
from app.openai.schemas import CompletionRequest
from app.runs import event_stream

bp = Blueprint("openai_api", __name__, url_prefix="/v1")
log = structlog.get_logger(__name__)


@bp.post("/completions")
def completions() -> Response | dict[str, Any]:
    """n samples of a prompt within a budget; server-sent events with `"stream": true`."""
    ctx = context()
    asked = _request()
    left = disconnect.asker(request.environ)
    event_stream.take_slot(ctx)
    with contextlib.ExitStack() as slot:
        slot.callback(ctx.streams.release)
        run_id = service.submit(ctx, asked)
        idempotency.tells_of(run_id)
        if not asked.stream:
            return service.answer(ctx, run_id, asked, left)
        answer = event_stream.stream(ctx, service.frames(ctx, run_id, asked, left))
        answer.call_on_close(partial(waiting.cancel, ctx, run_id))
        slot.pop_all()  # the open stream keeps it
        return answer


@bp.get("/models")
def list_models() -> dict[str, Any]:
    """The models that can be named by a key."""
    return {"object": "list", "data": [_model(ref) for ref in _keys()]}


@bp.get("/models/<path:name>")
def show_model(name: str) -> dict[str, Any]:
    """One of them. Raises NotFound for any other; no file is looked for, as whoever may read may ask."""
    if name not in _keys():
        raise NotFound(f"model {name[:60]!r} is not one of {', '.join(_keys())}: GET /v1/models lists them")
    return _model(name)


@bp.route("/<path:rest>", methods=["GET", "POST"])
def unknown(rest: str) -> Response:
    """Everything else of OpenAI's API. Raises NotFound."""
    raise NotFound(f"/v1/{rest} is not offered: use /v1/completions or /v1/models")


@bp.errorhandler(BasslineError)
def _ours(error: BasslineError) -> tuple[dict[str, Any], int]:
    note_retry_after(error)
    return service.error_document(error), service.status_of(error)


@bp.errorhandler(HTTPException)
def _http(error: HTTPException) -> tuple[dict[str, Any], int]:
    status = error.code or 500
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": error.description, "type": kind, "param": None, "code": None}}, status


@bp.errorhandler(Exception)
def _unforeseen(error: Exception) -> tuple[dict[str, Any], int]:
    log.error("request failed", path=request.path, exc_info=error)
    return _ours(BasslineError("something went wrong on the server; its log says what"))


def _request() -> CompletionRequest:
    if not request.is_json:
        raise BadInput("the body is not JSON: send it with Content-Type: application/json")
    try:
        body = from_json(request.get_data(), allow_inf_nan=False)  # unlike Python's own it bounds depth and digits
    except ValueError as fault:
        raise BadInput(f"the body is not JSON: {fault}") from None
    if not isinstance(body, dict):
        raise BadInput("the body is not a JSON object: send one, as in {...}")
    try:
        return CompletionRequest.model_validate(body)
    except ValidationError as error:
        raise bad_input(error) from None


def _keys() -> list[str]:
    return [model.ref for model in allowed.registered(context().settings.model_patterns)]


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "bassline"}
