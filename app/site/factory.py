"""Builds the Flask application. Imports no torch, neither directly nor through other modules."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import secrets
from pathlib import Path

from flask import Flask

from app import domains
from app.accounts import users
from app.core.context import Context, make_context
from app.core.errors import BadInputError
from app.monitoring import health, metrics
from app.runs.policy import policies
from app.site import request_layers
from app.web.http import limits, openapi, problems, security, web
from app.web.http.responses import STATIC_AGE_S, versioned_path

STATIC = Path(__file__).parents[1] / "web" / "static"
DOMAINS = (
    "leaderboard",
    "completions",
    "openai",
    "runs",
    "studies",
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

    A full collection over them takes 70 ms, and would interrupt every eighth request for a page of a run.
    """
    app = create_app(context)
    policies()  # now, so that no request waits for their import
    gc.collect()
    gc.freeze()
    return app


def create_app(context: Context | None = None) -> Flask:
    """The application over `context` (None: from the settings). Registers `bp` of each domain's api and pages."""
    ctx = context or make_context()
    if not ctx.settings.embedded and not ctx.settings.secret_key:
        raise BadInputError("BASSLINE_SECRET_KEY is empty: set a long random text, the same for every web process")
    assert domains.metadata.tables  # loads every mapper before the first query
    app = Flask("app.web", static_url_path=versioned_path(STATIC))
    app.config.update(
        SEND_FILE_MAX_AGE_DEFAULT=STATIC_AGE_S,
        SECRET_KEY=ctx.settings.secret_key or secrets.token_hex(32),
        SESSION_COOKIE_SAMESITE="Lax",
        SESSION_COOKIE_HTTPONLY=True,
        PERMANENT_SESSION_LIFETIME=users.SESSION_LIFETIME,
        # The CSRF check reads the form before the limit of the view is known.
        MAX_CONTENT_LENGTH=limits.UPLOAD_BYTES,
    )
    web.bind(app, ctx)
    web.keep_budget(app)
    security.init(app, ctx.settings.proxies)
    problems.init(app)
    request_layers.install(app)
    for blueprint in (health.bp, metrics.bp, openapi.bp):
        app.register_blueprint(blueprint)
    for domain in DOMAINS:
        for layer in ("api", "pages"):
            module = f"app.{domain}.{layer}"
            if importlib.util.find_spec(f"app.{domain}") and importlib.util.find_spec(module):
                blueprint = importlib.import_module(module).bp
                app.register_blueprint(blueprint)
                if layer == "api":
                    security.csrf.exempt(blueprint)  # accounts/access.py refuses cross-site calls instead
    limits.limit_sign_ins(app)
    security.require_scopes(app)
    return app
