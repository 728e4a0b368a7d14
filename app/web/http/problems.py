"""Maps errors to HTTP: RFC 9457 problem details under /api, elsewhere a page that says what happened and offers one
thing to do. /v1 has its own form."""

from __future__ import annotations

import http
from urllib.parse import urlsplit, urlunsplit

import structlog
from flask import Flask, Response, has_request_context, render_template, request, url_for
from flask_wtf.csrf import CSRFError  # type: ignore[import-untyped]
from pydantic import Field
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from app.core.db.database import OUTAGES
from app.core.errors import BasslineError, UnauthorizedError, UnavailableError
from app.web.http import sites
from app.web.http.request_context import note_retry_after
from app.web.http.schemas import ResponseModel
from app.web.http.security import SAFE

log = structlog.get_logger(__name__)
CONTENT_TYPE = "application/problem+json"
KEPT_HEADERS = ("Allow", "Retry-After")  # of HTTP errors
HTTP = "http"  # the code of HTTP's own errors
EXPIRED = "form_expired"  # of a form whose token is not, or no longer, valid

TITLES = {
    400: "This request cannot be read",
    401: "Sign in first",
    403: "You may not do this",
    404: "Page not found",
    405: "This address is for a button, not a page",
    409: "This cannot be done now",
    410: "This was cancelled",
    413: "The upload is too large",
    422: "Something in this request is wrong",
    429: "Too many requests",
    500: "Something went wrong on the server",
    503: "The service is busy",
}
SENTENCES = {
    404: "no page has this address: it may be mistyped, or what it showed was deleted",
    405: "nothing was changed",
}
"""In place of HTTP's own, which name no remedy."""
TRY_AGAIN = (429, 500, 503)


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
    """What users are told of an exception that is not ours, which is logged: UnavailableError if the database is out.

    Blueprints with a format of their own call it too: their handlers run before those of the application.
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
    return _build_response(400, detail, EXPIRED)


def _handle_http_error(error: HTTPException) -> Response:
    if error.response is not None:
        assert isinstance(error.response, Response)
        return error.response
    answer = _build_response(error.code or 500, error.description or error.name, HTTP)
    for name, value in error.get_headers(request.environ):
        if name in KEPT_HEADERS:
            answer.headers[name] = value
    return answer


def _build_response(status: int, detail: str, code: str, field: str | None = None) -> Response:
    title = http.HTTPStatus(status).phrase
    if not request.path.startswith("/api/"):
        return Response(_render_page(status, code, title, detail), status)
    problem = Problem(
        title=title,
        status=status,
        detail=detail,
        instance=request.path,
        code=code,
        errors=[FieldFault(field=field, detail=detail)] if field else [],
    )
    return Response(problem.model_dump_json(), status, content_type=CONTENT_TYPE)


def _render_page(status: int, code: str, name: str, detail: str) -> str:
    """The page of an error. `name` is HTTP's for its status, `code` tells ours from `app.core.errors` apart."""
    label, href = _choose_action(status)
    words = detail if code != HTTP else SENTENCES.get(status, detail)
    if status == RequestEntityTooLarge.code:  # whichever part of the request's handling noticed it
        mib = (request.max_content_length or 0) // 2**20
        words = f"at most {mib} MiB are accepted here: compress the file with gzip, or split it"
    title = TITLES.get(status, name) if code != EXPIRED else "This form has expired"
    return render_template("site/error.html", title=title, detail=words, label=label, href=href)


def _choose_action(status: int) -> tuple[str, str]:
    """(label, address) of what to do next."""
    if status == UnauthorizedError.status:
        return "Sign in", url_for("accounts.login")
    if request.method not in SAFE and (came_from := _find_origin_page()):
        return "Back to the page", came_from
    if status in TRY_AGAIN and request.method in SAFE:
        return "Try again", request.full_path.rstrip("?")
    return "First page", url_for("first_page.index")


def _find_origin_page() -> str | None:
    """The page of this service whose form was sent, as far as the browser says."""
    parts = urlsplit(request.referrer or "")
    path = urlunsplit(("", "", parts.path, parts.query, ""))
    return path if parts.netloc == request.host and sites.is_own_path(path) else None
