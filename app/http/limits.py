"""Limits: the size of request bodies, and the rate of requests per caller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from flask import Flask, g, request
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address
from werkzeug.exceptions import RequestEntityTooLarge

from app.http.security import is_api
from app.settings import Settings

BODY_BYTES = 4 * 2**20  # three texts of 200,000 characters, escaped
UPLOAD_BYTES = 64 * 2**20
SIGN_INS = "10 per minute"
UPLOADS = frozenset({"datasets_api.import_", "datasets.upload", "runs_api.import_"})


def init(app: Flask, settings: Settings) -> Callable[[], None]:
    """Limits body sizes and the rate of API requests. Returns a function to call when all views are registered."""
    app.config["MAX_CONTENT_LENGTH"] = UPLOAD_BYTES  # the CSRF check reads the form before _size sets the limit
    app.before_request(_size)
    shared = settings.events if settings.events.startswith(("redis://", "rediss://")) else "memory://"
    limiter = Limiter(
        _who,
        app=app,
        default_limits=[settings.rate_limit] if settings.rate_limit else [],
        default_limits_exempt_when=lambda: not is_api(request.path) or request.path.startswith("/api/v1/health/"),
        headers_enabled=True,
        storage_uri=shared,
        storage_options={"socket_connect_timeout": 1, "socket_timeout": 1} if shared != "memory://" else {},
        key_prefix="bassline",
        in_memory_fallback_enabled=True,  # without Redis, each process counts for itself
    )

    def finish() -> None:
        limited = limiter.limit(SIGN_INS, key_func=get_remote_address)
        app.view_functions["accounts.sign_in"] = cast(Any, limited(app.view_functions["accounts.sign_in"]))

    return finish


def _who() -> str:
    known = g.get("caller")
    return known.key if known else get_remote_address()


def _size() -> None:
    limit = UPLOAD_BYTES if request.endpoint in UPLOADS else BODY_BYTES
    request.max_content_length = limit
    if request.content_length is not None and request.content_length > limit:
        raise RequestEntityTooLarge(
            f"the body is {request.content_length} bytes long: {limit} are the most that is taken here"
        )
