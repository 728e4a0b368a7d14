"""Limits: the size of request bodies, the texts in addresses and forms, and the rate of requests per caller."""

from __future__ import annotations

from typing import Any

from flask import Flask, g, request
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address
from redis.backoff import NoBackoff
from redis.retry import Retry
from werkzeug.exceptions import RequestEntityTooLarge

from app.core.db.storable import find_unstorable_reason
from app.core.errors import BadInputError
from app.web.http.request_context import get_bound_context
from app.web.http.security import is_api

BODY_BYTES = 4 * 2**20  # three texts of 200,000 characters, escaped
UPLOAD_BYTES = 64 * 2**20
SIGN_INS = "10 per minute"
UPLOADS = frozenset(
    {"advice.create", "advice_api.create", "datasets_api.import_", "datasets.upload", "runs_api.import_"}
)

_REDIS: Any = {"socket_connect_timeout": 1, "socket_timeout": 1, "retry": Retry(NoBackoff(), 0)}


def install_rate_limit(app: Flask) -> None:
    """Limits the rate of API requests per caller."""
    settings = get_bound_context(app).settings
    shared = settings.broker_url
    Limiter(
        _identify_caller,
        app=app,
        default_limits=[settings.rate_limit] if settings.rate_limit else [],
        default_limits_exempt_when=lambda: not is_api(request.path) or request.path.startswith("/api/v1/health/"),
        headers_enabled=True,
        storage_uri=shared,
        storage_options={} if settings.embedded else _REDIS,
        key_prefix="bassline",
        in_memory_fallback_enabled=True,  # without Redis, each process counts for itself
        swallow_errors=True,  # of requests that are still waiting for Redis when the fallback begins
    )


def limit_sign_ins(app: Flask) -> None:
    """Limits sign-in attempts per address; call it after the views are registered."""
    (limiter,) = app.extensions["limiter"]
    limited = limiter.limit(SIGN_INS, key_func=get_remote_address)
    for view in ("accounts.sign_in", "accounts.finish_oidc"):
        app.view_functions[view] = limited(app.view_functions[view])


def check_size() -> None:
    """Raises RequestEntityTooLarge for a body longer than the view of this request takes."""
    limit = UPLOAD_BYTES if request.endpoint in UPLOADS else BODY_BYTES
    request.max_content_length = limit
    if request.content_length is not None and request.content_length > limit:
        raise RequestEntityTooLarge(
            f"{request.content_length:,} bytes were sent, and at most {limit:,} are accepted here: split the content, "
            "or compress a file with gzip"
        )


def check_texts() -> None:
    """Raises BadInputError if the path, the query or the form of this request holds a text that no database stores.

    The schemas check JSON bodies.
    """
    if reason := find_unstorable_reason(request.path):
        raise BadInputError(f"the address holds {reason}: remove it")
    for values in (request.args, request.form):
        for name, value in values.items(multi=True):
            if name is None:  # a part of a multipart form whose header holds no name
                raise BadInputError("a part of the form has no name: give each part one")
            if reason := find_unstorable_reason(name + value):
                raise BadInputError(f"{name!r} holds {reason}: remove it", name if name.isprintable() else None)


def _identify_caller() -> str:
    known = g.get("caller")
    return known.key if known else get_remote_address()
