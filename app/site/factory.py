"""Builds the Flask application, and lists what happens to every request before and after its view.

Imports no torch, neither directly nor through other modules.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from flask import Flask, Response
from flask.typing import ResponseReturnValue

from app import domains
from app.accounts import access, users
from app.core.context import Context, make_context
from app.core.errors import BadInputError
from app.monitoring import health, metrics
from app.runs.policy import list_policies
from app.web.http import disconnect, limits, openapi, problems, request_context, request_log, responses, security
from app.web.http.responses import STATIC_AGE_S, build_versioned_path


@dataclass(frozen=True, slots=True)
class ViewLayer:
    """One layer around the views, and why it stands where it stands.

    A `before` that answers the request keeps it from the layers further in and from the view. Each `after` sees every
    response.
    """

    name: str
    reason: str
    before: Callable[[], ResponseReturnValue | None] | None = None
    after: Callable[[Response], Response] | None = None
    install: Callable[[Flask], object] | None = None  # of an extension, which registers its own hooks


LAYERS = (
    ViewLayer("compression", "sees the body as it is sent, after every other layer", after=responses.compress),
    ViewLayer(
        "retry-after",
        "corrects the header that the rate limit sets on every response",
        after=request_context.set_retry_after,
    ),
    ViewLayer(
        "log",
        "gives an id to every line that a layer further in writes, and measures the time of all of them",
        before=request_log.begin_request_log,
        after=request_log.end_request_log,
    ),
    ViewLayer("send timeout", "holds for every response, also one of a layer further in", disconnect.limit_sending),
    ViewLayer(
        "access",
        "refuses strangers before anything reads the body, and tells the rate limit the caller",
        access.authorize_request,
    ),
    ViewLayer("headers", "sets what no layer further in has set", after=security.set_headers),
    ViewLayer("csrf", "refuses forged forms before they count against the caller", install=security.csrf.init_app),
    ViewLayer("body size", "refuses large bodies before anything but the CSRF check reads them", limits.check_size),
    ViewLayer("rate", "counts by caller, so it needs access", install=limits.install_rate_limit),
    ViewLayer("storable input", "reads the form, so it needs the limit of its size", limits.check_texts),
    ViewLayer("etags", "turns a response into 304 before it is logged", after=responses.add_etag),
)
"""Outermost first: a request passes the list downwards, its response upwards."""


def install_layers(app: Flask) -> None:
    """Registers the hooks of all layers. The application's context must be bound (`request_context.bind_context`)."""
    for layer in LAYERS:
        if layer.before:
            app.before_request(layer.before)
        if layer.after:
            app.after_request(layer.after)  # Flask calls these last registered first
        if layer.install:
            layer.install(app)


STATIC = Path(__file__).parents[1] / "web" / "static"
DOMAINS = (
    "first_page",
    "leaderboard",
    "completions",
    "openai",
    "runs",
    "studies",
    "advice",
    "datasets",
    "language_models",
    "workers",
    "background",
    "accounts",
    "comparison",
    "site",
)


def create_server_app(context: Context | None = None) -> Flask:
    """`create_app` for a process that serves it, with all objects so far hidden from the garbage collector.

    A full collection over them takes 70 ms and hit every eighth request for a run's page.
    """
    app = create_app(context)
    list_policies()  # now, so that no request waits for their import
    gc.collect()
    gc.freeze()
    return app


def create_app(context: Context | None = None) -> Flask:
    """The application over `context` (None: from the settings). Registers `bp` of each domain's api and pages."""
    ctx = context or make_context()
    if not ctx.settings.embedded and not ctx.settings.secret_key:
        raise BadInputError("BASSLINE_SECRET_KEY is empty: set a long random text, the same for every web process")
    assert domains.metadata.tables  # loads every mapper before the first query
    app = Flask("app.web", static_url_path=build_versioned_path(STATIC))
    app.config.update(
        SEND_FILE_MAX_AGE_DEFAULT=STATIC_AGE_S,
        SECRET_KEY=ctx.settings.secret_key or secrets.token_hex(32),
        SESSION_COOKIE_SAMESITE="Lax",
        SESSION_COOKIE_HTTPONLY=True,
        PERMANENT_SESSION_LIFETIME=users.SESSION_LIFETIME,
        # The CSRF check reads the form before the limit of the view is known.
        MAX_CONTENT_LENGTH=limits.UPLOAD_BYTES,
    )
    request_context.bind_context(app, ctx)
    request_context.keep_budget_in_links(app)
    security.init(app, ctx.settings.proxies)
    problems.init(app)
    install_layers(app)
    for blueprint in (health.bp, metrics.bp, openapi.bp):
        app.register_blueprint(blueprint)
    for domain in DOMAINS:
        for layer in ("api", "pages"):
            module = f"app.{domain}.{layer}"
            if importlib.util.find_spec(module):
                blueprint = importlib.import_module(module).bp
                app.register_blueprint(blueprint)
                if layer == "api":
                    security.csrf.exempt(blueprint)  # accounts/access.py refuses cross-site calls instead
    limits.limit_sign_ins(app)
    security.require_scopes(app)
    return app
