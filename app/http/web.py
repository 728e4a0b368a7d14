"""What views use: the context, and one read-only session per request that is closed at teardown.

Pages and API read through `session()` and change things only through services, which take the context and open
their own short units of work.
"""

from __future__ import annotations

from flask import Flask, Response, current_app, g
from sqlalchemy.orm import Session
from werkzeug.exceptions import TooManyRequests

from app.context import Context
from app.errors import Unavailable

KEY = "bassline"
RETRY_AFTER_S = 2


def context() -> Context:
    """The context of the running Flask application."""
    found: Context = current_app.extensions[KEY]
    return found


def session() -> Session:
    """This request's session for reading."""
    if "session" not in g:
        g.session = context().database.reader()
    found: Session = g.session
    return found


def init(app: Flask, ctx: Context) -> None:
    """Hangs the context on the application, closes sessions at teardown, and says when to come back after a 503."""
    app.extensions[KEY] = ctx

    @app.teardown_appcontext
    def _close(_error: BaseException | None) -> None:
        if (open_session := g.pop("session", None)) is not None:
            open_session.close()

    @app.after_request
    def _when(response: Response) -> Response:
        # The limiter puts the end of its window on every answer, and clients obey it on answers that are not its own.
        if response.status_code == Unavailable.status:
            response.headers["Retry-After"] = str(RETRY_AFTER_S)
        elif response.status_code != TooManyRequests.code:
            response.headers.pop("Retry-After", None)
        return response
