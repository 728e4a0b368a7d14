"""For views: the context, and one read-only session per request, closed at teardown.

Pages and API read through `get_session()`. They change data only through services, which take the context and
open their own short transactions.
"""

from __future__ import annotations

import uuid
from typing import TypeVar

from flask import Flask, Response, current_app, g, has_request_context, request
from sqlalchemy.orm import Session
from werkzeug.exceptions import TooManyRequests

from app.core.context import Context
from app.core.errors import BadInputError, BasslineError, OverloadedError, UnavailableError

KEY = "bassline"
RETRY_AFTER_S = 2
T = TypeVar("T")


def get_context() -> Context:
    """The context of the running Flask application."""
    return get_bound_context(current_app)


def get_bound_context(app: Flask) -> Context:
    """The context that `bind_context` stored in the application."""
    found: Context = app.extensions[KEY]
    return found


def get_session() -> Session:
    """This request's session for reading."""
    if "session" not in g:
        g.session = get_context().database.open_reader()
    found: Session = g.session
    return found


def get_singleton(kind: type[T]) -> T:
    """The application's one object of this class, which keeps what was computed for earlier requests."""
    key = f"{kind.__module__}.{kind.__qualname__}"
    if key not in current_app.extensions:
        # setdefault again: of two concurrent first requests, both get the same object.
        current_app.extensions.setdefault(key, kind())
    found: T = current_app.extensions[key]
    return found


def parse_id(name: str, what: str) -> uuid.UUID | None:
    """The id of a run or a study in the page's address, None without one. Raises BadInputError."""
    text = request.args.get(name, "")
    try:
        return uuid.UUID(text) if text else None
    except ValueError:
        many = "studies" if what == "study" else f"{what}s"
        raise BadInputError(f"{text[:60]!r} is not a {what}'s id: open the {what} from the list of {many}") from None


def note_retry_after(error: BasslineError) -> None:
    """Lets the answer to this request say when to come again, if the error knows."""
    if isinstance(error, OverloadedError):
        g.retry_after_s = error.retry_after_s


def bind_context(app: Flask, ctx: Context) -> None:
    """Stores the context in the application, and closes sessions at teardown."""
    app.extensions[KEY] = ctx

    @app.teardown_appcontext
    def _close(_error: BaseException | None) -> None:
        if (open_session := g.pop("session", None)) is not None:
            open_session.close()


_WITH_BUDGET = {"runs.show", "runs.task", "studies.show", "overlay.show", "overlay.matrix", "overlay.task"}


def keep_budget_in_links(app: Flask) -> None:
    """Makes links between pages of runs, studies and overlays keep the `?budget=` of the page they stand on."""

    @app.url_defaults
    def _budget(endpoint: str, values: dict[str, object]) -> None:
        if endpoint in _WITH_BUDGET and has_request_context() and (budget := request.args.get("budget")):
            values.setdefault("budget", budget)


def set_retry_after(response: Response) -> Response:
    """Sets Retry-After on a 503 or a 429, and on no other response."""
    # The limiter sets the header on every response. Clients would wait for its window after any other error too.
    if "retry_after_s" in g:
        response.headers["Retry-After"] = str(g.retry_after_s)
    elif response.status_code == UnavailableError.status:
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
    elif response.status_code != TooManyRequests.code:
        response.headers.pop("Retry-After", None)
    return response
