"""Maps errors to HTTP: RFC 9457 problem details under /api, a page elsewhere. /v1 has its own form."""

from __future__ import annotations

import http

import structlog
from flask import Flask, Response, has_request_context, request
from flask_wtf.csrf import CSRFError  # type: ignore[import-untyped]
from pydantic import Field
from werkzeug.exceptions import HTTPException

from app.core.db.database import OUTAGES
from app.core.errors import BasslineError, UnavailableError
from app.web.http import error_pages
from app.web.http.request_context import note_retry_after
from app.web.http.schemas import ResponseModel

log = structlog.get_logger(__name__)
CONTENT_TYPE = "application/problem+json"
KEPT_HEADERS = ("Allow", "Retry-After")  # of HTTP errors


class FieldFault(ResponseModel):
    """A field of the request that is wrong."""

    field: str
    detail: str


class Problem(ResponseModel):
    """RFC 9457: the error in one sentence that says what to do."""

    type: str = "about:blank"
    title: str = Field(description="the status in words")
    status: int
    detail: str = Field(description="what is wrong and what to do")
    instance: str = Field(description="the path that was asked for")
    code: str = Field(description="the kind of error, for programs")
    errors: list[FieldFault] = Field([], description="the fields at fault, if any")


def init(app: Flask) -> None:
    """Registers a handler each for our errors, HTTP errors and any other exception."""
    app.register_error_handler(BasslineError, _handle_bassline_error)
    app.register_error_handler(CSRFError, _handle_csrf_error)
    app.register_error_handler(HTTPException, _handle_http_error)
    app.register_error_handler(Exception, lambda error: _handle_bassline_error(to_public_error(error)))


def to_public_error(error: Exception) -> BasslineError:
    """What users are told of an exception that is not ours, which is logged: UnavailableError for an outage of the
    database.

    A blueprint with its own error format calls this too, since its Exception handler runs before any
    handler of the application.
    """
    path = request.path if has_request_context() else None  # there is none while a stream is sent
    if isinstance(error, OUTAGES):
        # A warning, as for a worker's heartbeat: the fault ends with the outage, which readiness reports.
        log.warning("the database failed", path=path, exc_info=error)
        return UnavailableError("the database is unavailable: try again in a moment")
    log.error("request failed", path=path, exc_info=error)
    return BasslineError("something went wrong on the server; its log says what")


def _handle_bassline_error(error: BasslineError) -> Response:
    note_retry_after(error)
    return _build_response(error.status, str(error), error.code, getattr(error, "field", None))


def _handle_csrf_error(_error: CSRFError) -> Response:
    detail = "nothing was changed: the service was restarted since the page was opened, or the page is too old"
    return _build_response(400, detail, error_pages.EXPIRED)


def _handle_http_error(error: HTTPException) -> Response:
    if error.response is not None:
        assert isinstance(error.response, Response)
        return error.response
    answer = _build_response(error.code or 500, error.description or error.name, error_pages.HTTP)
    for name, value in error.get_headers(request.environ):
        if name in KEPT_HEADERS:
            answer.headers[name] = value
    return answer


def _build_response(status: int, detail: str, code: str, field: str | None = None) -> Response:
    title = http.HTTPStatus(status).phrase
    if not request.path.startswith("/api/"):
        return Response(error_pages.render_error_page(status, code, title, detail), status)
    problem = Problem(
        title=title,
        status=status,
        detail=detail,
        instance=request.path,
        code=code,
        errors=[FieldFault(field=field, detail=detail)] if field else [],
    )
    return Response(problem.model_dump_json(), status, content_type=CONTENT_TYPE)
