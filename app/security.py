"""Who may call, and what browsers may do with our pages: tokens, cross-site refusal, CSRF, response headers."""

from __future__ import annotations

from flask import Flask, Response, request
from flask_wtf.csrf import CSRFProtect  # type: ignore[import-untyped]

from app.accounts import service as accounts
from app.errors import Forbidden, Unauthorized
from app.web import context

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; "
    "img-src 'self' data:; font-src 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
PUBLIC_PREFIX = "/api/v1/health/"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})


def init(app: Flask) -> CSRFProtect:
    """Puts the checks before every request and the headers on every answer. Returns the CSRF protection of forms."""
    app.before_request(_check)
    app.after_request(_headers)
    return CSRFProtect(app)


def _check() -> None:
    if request.path.startswith(PUBLIC_PREFIX):
        return
    settings = context().settings
    if request.method not in SAFE and request.headers.get("Sec-Fetch-Site", "same-origin") not in (
        "same-origin",
        "none",
    ):
        raise Forbidden("this was sent by a page of another site: use the service's own pages")
    if settings.require_tokens:
        accounts.authenticate(context(), _presented_token())
    elif settings.embedded and request.host.rsplit(":", 1)[0] not in LOOPBACK:
        # Without tokens only this machine may ask; another host name means a rebound DNS name in a browser.
        raise Forbidden(f"the host {request.host} is not this machine: open http://127.0.0.1 instead")


def _presented_token() -> str:
    """The bearer token, or the password of HTTP Basic (what a browser asks its user for)."""
    given = request.authorization
    secret = (given.token or given.password) if given is not None else None
    if not secret:
        raise Unauthorized("this needs a token: send `Authorization: Bearer TOKEN`, made by `bassline tokens create`")
    return secret


def _headers(response: Response) -> Response:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    if response.status_code == Unauthorized.status:
        response.headers.setdefault("WWW-Authenticate", 'Basic realm="bassline", charset="UTF-8"')
    return response
