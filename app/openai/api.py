"""/v1/chat/completions, /v1/completions and /v1/models for clients of OpenAI's API."""

from __future__ import annotations

from typing import Any, TypeVar

from flask import Blueprint, Response, request
from pydantic_core import from_json
from werkzeug.exceptions import HTTPException

from app.completions import waiting
from app.core.errors import BadInputError, BasslineError, NotFoundError
from app.core.states import Scope
from app.language_models import service as language_models
from app.openai import service
from app.openai.answers import Answers, ChatAnswers, TextAnswers
from app.openai.fields import SamplesRequest
from app.openai.schemas import ChatRequest, CompletionRequest
from app.runs import event_stream
from app.web.http import disconnect, problems
from app.web.http.request_context import get_context, note_retry_after
from app.web.http.schemas import parse_spec
from app.web.http.security import require_scope

bp = Blueprint("openai_api", __name__)
R = TypeVar("R", bound=SamplesRequest)


class UnknownUrlError(NotFoundError):
    """An address that OpenAI's API may have and this one does not."""

    code = "unknown_url"


@bp.post("/v1/completions")
@require_scope(Scope.SUBMIT)
def completions() -> Response | dict[str, Any]:
    """n samples of a prompt within a budget; server-sent events with `"stream": true`."""
    asked = _parse_request(CompletionRequest)
    return _answer_request(asked, TextAnswers(asked))


@bp.post("/v1/chat/completions")
@require_scope(Scope.SUBMIT)
def chat_completions() -> Response | dict[str, Any]:
    """n answers to a conversation within a budget; server-sent events with `"stream": true`."""
    asked = _parse_request(ChatRequest)
    return _answer_request(asked, ChatAnswers(asked))


@bp.get("/v1/models")
def list_models() -> dict[str, Any]:
    """The models that can be named by a key."""
    return {"object": "list", "data": [_describe_model(ref) for ref in _list_model_keys()]}


@bp.get("/v1/models/<path:name>")
def show_model(name: str) -> dict[str, Any]:
    """One of them. Raises BadInputError for any other; files are not searched, because every reader may ask."""
    if name not in _list_model_keys():
        raise BadInputError(
            f"model {name[:60]!r} is not one of {', '.join(_list_model_keys())}: GET /v1/models lists them", "target"
        )
    return _describe_model(name)


@bp.route("/v1/<path:rest>", methods=["GET", "POST"])
@require_scope(Scope.READ)
def unknown(rest: str) -> Response:
    """Everything else of OpenAI's API. Raises UnknownUrlError."""
    raise UnknownUrlError(f"/v1/{rest} is not offered: use /v1/chat/completions, /v1/completions or /v1/models")


@bp.errorhandler(BasslineError)
def _handle_bassline_error(error: BasslineError) -> tuple[dict[str, Any], int]:
    note_retry_after(error)
    return service.build_error_document(error), service.get_status(error)


@bp.errorhandler(HTTPException)
def _handle_http_error(error: HTTPException) -> tuple[dict[str, Any], int]:
    status = error.code or 500
    return service.format_error(error.description, status), status


@bp.errorhandler(Exception)
def _handle_unexpected_error(error: Exception) -> tuple[dict[str, Any], int]:
    return _handle_bassline_error(problems.to_public_error(error))


def _answer_request(asked: SamplesRequest, answers: Answers) -> Response | dict[str, Any]:
    ctx, disconnected = get_context(), disconnect.build_disconnect_probe(request.environ)
    with waiting.acquire_slot(ctx) as slot:
        run_id = service.submit(ctx, asked)
        if not asked.stream:
            return service.answer(ctx, run_id, answers, disconnected)
        slot.callback(waiting.cancel, ctx, run_id)
        frames = service.stream_frames(ctx, run_id, answers, asked.stream_options, disconnected)
        return event_stream.build_stream_response(frames, slot.pop_all().close)


def _parse_request(kind: type[R]) -> R:
    """The body as a request. Raises BadInputError."""
    if not request.is_json:
        raise BadInputError("the body is not JSON: send it with Content-Type: application/json")
    try:
        body = from_json(request.get_data(), allow_inf_nan=False)  # unlike Python's own it bounds depth and digits
    except ValueError as fault:
        raise BadInputError(f"the body is not JSON: {fault}") from None
    if not isinstance(body, dict):
        raise BadInputError("the body is not a JSON object: send one, as in {...}")
    return parse_spec(kind, body)


def _list_model_keys() -> list[str]:
    return [model.ref for model in language_models.list_allowed(get_context().settings.model_patterns)]


def _describe_model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "bassline"}
