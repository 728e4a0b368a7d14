"""The page of an error: a heading in words, a sentence, and one thing to do."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from flask import render_template, request, url_for
from werkzeug.exceptions import RequestEntityTooLarge

from app.core.errors import UnauthorizedError
from app.web.http import sites
from app.web.http.security import SAFE

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
LISTS = {
    "runs": ("runs.index", "All runs"),
    "overlay": ("runs.index", "All runs"),
    "studies": ("studies.index", "All studies"),
    "complete": ("complete.index", "Complete a prompt"),
    "datasets": ("datasets.index", "All datasets"),
    "models": ("models.index", "All models"),
}
"""The list to which a page belongs, by the first part of its path."""
TRY_AGAIN = (429, 500, 503)


def render_error_page(status: int, code: str, name: str, detail: str) -> str:
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
    endpoint, label = LISTS.get(request.path.split("/")[1], ("first_page.index", "First page"))
    return label, url_for(endpoint)


def _find_origin_page() -> str | None:
    """The page of this service whose form was sent, as far as the browser says."""
    parts = urlsplit(request.referrer or "")
    path = urlunsplit(("", "", parts.path, parts.query, ""))
    return path if parts.netloc == request.host and sites.is_own_path(path) else None
