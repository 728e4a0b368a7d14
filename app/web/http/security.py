"""Callers and their scopes, CSRF protection of forms, and the security headers of every answer."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from flask import Flask, Response, current_app, g, request, url_for
from flask.sessions import SecureCookieSessionInterface
from flask_wtf.csrf import CSRFProtect  # type: ignore[import-untyped]
from werkzeug.middleware.proxy_fix import ProxyFix

from app.core.errors import UnauthorizedError
from app.core.states import Scope
from app.web.http import sites

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
API = ("/api/", "/v1/")  # Bassline's own API and OpenAI's
PUBLIC = frozenset(
    {"static", "health.live", "health.ready", "openapi.document", "accounts.login", "accounts.sign_in"}
) | {"accounts.begin_oidc", "accounts.finish_oidc"}
SCOPE = "scope"
USER_KEY = "user:"  # begins the key of a signed-in user
V = TypeVar("V", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request. `key` is unique; `user_id` is None for this machine and for tokens without a user."""

    key: str
    name: str
    scope: Scope
    user_id: uuid.UUID | None = None

    @property
    def manages_tokens(self) -> bool:
        """Whether the caller may make and revoke tokens: its own in a signed-in browser, any with the scope admin.

        A token that made another would outlive its own revocation.
        """
        return self.scope is Scope.ADMIN or self.key.startswith(USER_KEY)


LOCAL = Caller("local", "this machine", Scope.ADMIN)


class _Sessions(SecureCookieSessionInterface):
    """Flask's signed cookie, marked Secure if the request came over https."""

    def get_cookie_secure(self, app: Flask) -> bool:
        return request.is_secure


csrf = CSRFProtect()


def init(app: Flask, proxies: int) -> None:
    """Marks the session's cookie Secure, and trusts the headers of `proxies` reverse proxies.

    They set X-Forwarded-For, -Proto and -Host.
    """
    if proxies:
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=proxies, x_proto=proxies, x_host=proxies)  # type: ignore[method-assign]
    app.session_interface = _Sessions()
    app.add_template_global(may_use)


def require_scope(scope: Scope) -> Callable[[V], V]:
    """Declares the scope that a view needs. A view that changes anything must declare one (`require_scopes`)."""

    def mark(view: V) -> V:
        setattr(view, SCOPE, scope)
        return view

    return mark


def get_scope(view: Callable[..., Any], method: str) -> Scope:
    """The scope that a view declares, else read for a safe method. Raises LookupError for any other method."""
    declared = getattr(view, SCOPE, None)
    if declared is None and method not in SAFE:
        raise LookupError(f"{view.__qualname__} changes something and declares no scope: add @require_scope(Scope....)")
    return Scope.READ if declared is None else Scope(declared)


def require_scopes(app: Flask) -> None:
    """Raises LookupError for a route that changes something and declares no scope: the service does not start then."""
    for rule in app.url_map.iter_rules():
        for method in (rule.methods or set()) - SAFE if rule.endpoint not in PUBLIC else ():
            get_scope(app.view_functions[rule.endpoint], method)


def may_use(endpoint: str) -> bool:
    """For templates: whether the caller may send the form of this endpoint, so that a page shows no other buttons."""
    known: Caller | None = g.get("caller")  # none on the login page
    return known is not None and known.scope.allows(get_scope(current_app.view_functions[endpoint], "POST"))


def get_caller() -> Caller:
    """The caller of this request."""
    found: Caller = g.caller
    return found


def is_api(path: str) -> bool:
    """Whether the path belongs to an API rather than to a page."""
    return path.startswith(API)


def choose_next_path(target: str | None) -> str:
    """Where to go after signing in: a path of this service, never another site."""
    return target if target and sites.is_own_path(target) else url_for("first_page.index")


def set_headers(response: Response) -> Response:
    """Sets the security headers, and what the API's clients may cache."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    if response.status_code == UnauthorizedError.status:
        response.headers.setdefault("WWW-Authenticate", 'Bearer realm="bassline"')
    if is_api(request.path):
        response.headers.setdefault("Cache-Control", "private, no-cache")
    return response
