"""One log line per request, and an id in every line of the request and in the header of its answer."""

from __future__ import annotations

import re
import time

import structlog
from flask import Response, g, request

from app.core.db.types import generate_id

HEADER = "X-Request-ID"
UNLOGGED_PREFIXES = ("/static/", "/api/v1/health/")
_ACCEPTED = re.compile(r"[A-Za-z0-9_.-]{1,64}")  # other characters could forge or break a line of the log
log = structlog.get_logger(__name__)


def begin_request_log() -> None:
    """Gives the request its id, which every line of the log then has."""
    structlog.contextvars.clear_contextvars()
    given = request.headers.get(HEADER, "")
    g.request_id, g.began = given if _ACCEPTED.fullmatch(given) else generate_id().hex, time.monotonic()
    structlog.contextvars.bind_contextvars(request=g.request_id)


def end_request_log(response: Response) -> Response:
    """Names the id in the response, and writes the line."""
    response.headers[HEADER] = g.request_id
    if not request.path.startswith(UNLOGGED_PREFIXES):
        caller = g.get("caller")
        log.info(
            "request",
            method=request.method,
            path=request.path,
            status=response.status_code,
            ms=round(1000 * (time.monotonic() - g.began), 1),
            caller=caller.key if caller else None,
        )
    return response
