"""Callers and their scopes, CSRF protection of forms, and the security headers of every answer."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from flask import Flask, Response, g, request, url_for
from flask.sessions import SecureCookieSessionInterface
from flask_wtf.csrf import CSRFProtect  # type: ignore[import-untyped]
from werkzeug.middleware.proxy_fix import ProxyFix

from app.errors import UnauthorizedError
from app.http import sites
from app.states import Scope

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
API = ("/api/", "/v1/", "/infill")  # Bassline's own API, OpenAI's and llama.cpp's
PUBLIC = frozenset({"static", "health.live", "health.ready", "openapi.document", "accounts.login", "accounts.sign_in"})
SCOPE = "scope"
V = TypeVar("V", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request. `key` is unique; `user_id` is None for this machine and for tokens without a user."""

    key: str
    name: str
    scope: Scope
    user_id: uuid.UUID | None = None


LOCAL = Caller("local", "this machine", Scope.ADMIN)


class _Sessions(SecureCookieSessionInterface):
    """Flask's signed cookie, marked Secure if the request came over https."""

    def get_cookie_secure(self, app: Flask) -> bool:
        return request.is_secure


csrf = CSRFProtect()


def init(app: Flask, proxies: int) -> None:
    """Makes the session's cookie secure, and believes `proxies` trusted reverse proxies.

    They set X-Forwarded-For, -Proto and -Host.
    """
    if proxies:
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=proxies, x_proto=proxies, x_host=proxies)  # type: ignore[method-assign]
    app.session_interface = _Sessions()
    app.add_template_global(lambda: caller().scope.allows(Scope.SUBMIT), "may_submit")


def needs(scope: Scope) -> Callable[[V], V]:
    """Marks a view that needs another scope than its method implies."""

    def mark(view: V) -> V:
        setattr(view, SCOPE, scope)
        return view

    return mark


def scope_of(view: Callable[..., Any], method: str) -> Scope:
    """The scope a view needs: the marked one, else read for a safe method, admin for DELETE, submit for the rest."""
    marked = getattr(view, SCOPE, None)
    if marked is not None:
        return Scope(marked)
    if method in SAFE:
        return Scope.READ
    return Scope.ADMIN if method == "DELETE" else Scope.SUBMIT


def caller() -> Caller:
    """The caller of this request."""
    found: Caller = g.caller
    return found


def is_api(path: str) -> bool:
    """Whether the path belongs to an API rather than to a page."""
    return path.startswith(API)


def own_path(target: str | None) -> str:
    """Where to go after signing in: a path of this service, never another site."""
    return target if target and sites.is_own_path(target) else url_for("leaderboard.index")


def set_headers(response: Response) -> Response:
    """Sets the security headers, and what the API's clients may cache."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    if response.status_code == UnauthorizedError.status:
        response.headers.setdefault("WWW-Authenticate", 'Bearer realm="bassline"')
    if is_api(request.path):
        response.headers.setdefault("Cache-Control", "private, no-cache")
    return response
