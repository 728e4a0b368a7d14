"""Builds the Flask application, and lists what happens to every request before and after its view.

Imports no torch, neither directly nor through other modules.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import secrets
from pathlib import Path

from flask import Flask

from app import domains
from app.accounts import access, users
from app.core.context import Context, make_context
from app.core.errors import BadInputError
from app.monitoring import health, metrics
from app.runs.policy import list_policies
from app.web.http import disconnect, limits, openapi, problems, request_context, request_log, responses, security
from app.web.http.responses import STATIC_AGE_S, build_versioned_path


def install_layers(app: Flask) -> None:
    """Registers what happens around the views, outermost first: a request passes the list downwards, its response
    upwards.

    A hook that answers the request keeps it from those further in and from the view. The application's context must be
    bound (`request_context.bind_context`).
    """
    app.after_request(responses.compress)  # sees the body as it is sent, after every other layer
    app.after_request(request_context.set_retry_after)  # corrects the header that the rate limit sets
    # Gives an id to every line that a layer further in writes, and measures the time of all of them.
    app.before_request(request_log.begin_request_log)
    app.after_request(request_log.end_request_log)
    app.before_request(disconnect.limit_sending)  # also for a response of a layer further in
    # Refuses strangers before anything reads the body, and tells the rate limit the caller.
    app.before_request(access.authorize_request)
    app.after_request(security.set_headers)  # what no layer further in has set
    security.csrf.init_app(app)  # refuses forged forms before they count against the caller
    app.before_request(limits.check_size)  # before anything but the CSRF check reads the body
    limits.install_rate_limit(app)  # counts by caller, so it needs access
    app.before_request(limits.check_texts)  # reads the form, so it needs the limit of its size
    app.after_request(responses.add_etag)  # turns a response into 304 before it is logged


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
