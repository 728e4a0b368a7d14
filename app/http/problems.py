"""Maps errors to HTTP: RFC 9457 problem details under /api, a page elsewhere. No other module does."""

from __future__ import annotations

import http

import structlog
from flask import Flask, Response, render_template, request
from jinja2 import TemplateNotFound
from pydantic import Field
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from werkzeug.exceptions import HTTPException

from app.errors import BasslineError
from app.http.schemas import ResponseModel
from app.http.web import note_retry_after

log = structlog.get_logger(__name__)
CONTENT_TYPE = "application/problem+json"
KEPT_HEADERS = ("Allow", "Retry-After")  # of HTTP errors


class Fault(ResponseModel):
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
    errors: list[Fault] = Field([], description="the fields at fault, if any")


def init(app: Flask) -> None:
    """Registers a handler each for our errors, HTTP errors, an unreachable database, and any other exception."""
    app.register_error_handler(BasslineError, _ours)
    app.register_error_handler(HTTPException, _http)
    for away in (InterfaceError, OperationalError, PoolTimeout):
        app.register_error_handler(away, _database)
    app.register_error_handler(Exception, _unexpected)


def _ours(error: BasslineError) -> Response:
    note_retry_after(error)
    return _answer(error.status, str(error), error.code, getattr(error, "field", None))


def _http(error: HTTPException) -> Response:
    if error.response is not None:
        assert isinstance(error.response, Response)
        return error.response
    answer = _answer(error.code or 500, error.description or error.name, "http")
    for name, value in error.get_headers(request.environ):
        if name in KEPT_HEADERS:
            answer.headers[name] = value
    return answer


def _database(error: Exception) -> Response:
    # A warning, as for a worker's heartbeat: the fault ends with the outage, which readiness reports.
    log.warning("the database failed", path=request.path, exc_info=error)
    return _answer(503, "the database cannot be asked now: try again in a moment", "unavailable")


def _unexpected(error: Exception) -> Response:
    log.error("request failed", path=request.path, exc_info=error)
    return _answer(500, "something went wrong on the server; its log says what", "error")


def _answer(status: int, detail: str, code: str, field: str | None = None) -> Response:
    title = http.HTTPStatus(status).phrase
    if not request.path.startswith("/api/"):
        return _page(status, title, detail)
    problem = Problem(
        type="about:blank",
        title=title,
        status=status,
        detail=detail,
        instance=request.path,
        code=code,
        errors=[Fault(field=field, detail=detail)] if field else [],
    )
    return Response(problem.model_dump_json(), status, content_type=CONTENT_TYPE)


def _page(status: int, title: str, detail: str) -> Response:
    try:
        return Response(render_template("site/error.html", status=status, title=title, detail=detail), status)
    except TemplateNotFound:
        return Response(f"{status} {title}: {detail}\n", status, content_type="text/plain; charset=utf-8")
