"""Who may call, and what browsers may do with our pages: callers, scopes, cross-site refusal, CSRF, headers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from flask import Flask, Response, current_app, g, redirect, request, session, url_for
from flask.sessions import SecureCookieSessionInterface
from flask_wtf.csrf import CSRFProtect  # type: ignore[import-untyped]
from werkzeug.middleware.proxy_fix import ProxyFix

from app import sites
from app.accounts import service as accounts
from app.accounts import users
from app.accounts.service import Caller
from app.errors import Forbidden, Unauthorized
from app.states import Scope
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
API = ("/api/", "/v1/")  # ours, and the OpenAI-compatible one
PUBLIC = frozenset({"static", "health.live", "health.ready", "openapi.document", "accounts.login", "accounts.sign_in"})
SCOPE = "scope"
V = TypeVar("V", bound=Callable[..., Any])


class _Sessions(SecureCookieSessionInterface):
    """Flask's signed cookie, marked Secure whenever the browser came over https."""

    def get_cookie_secure(self, app: Flask) -> bool:
        return request.is_secure


def init(app: Flask, proxies: int) -> CSRFProtect:
    """Puts the checks before every request and the headers on every answer. Returns the CSRF protection of forms.

    `proxies` is how many reverse proxies may say where a request came from (X-Forwarded-For, -Proto, -Host).
    """
    if proxies:
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=proxies, x_proto=proxies, x_host=proxies)  # type: ignore[method-assign]
    app.session_interface = _Sessions()
    app.permanent_session_lifetime = users.SESSION_LIFETIME
    app.before_request(_check)
    app.after_request(_headers)
    return CSRFProtect(app)


def needs(scope: Scope) -> Callable[[V], V]:
    """Marks a view that needs another scope than its method says."""

    def mark(view: V) -> V:
        setattr(view, SCOPE, scope)
        return view

    return mark


def scope_of(view: Callable[..., Any], method: str) -> Scope:
    """What a view needs: as marked, else reading for a safe method, admin to delete, submit for the rest."""
    marked = getattr(view, SCOPE, None)
    if marked is not None:
        return Scope(marked)
    if method in SAFE:
        return Scope.READ
    return Scope.ADMIN if method == "DELETE" else Scope.SUBMIT


def caller() -> Caller:
    """Who this request comes from."""
    found: Caller = g.caller
    return found


def is_api(path: str) -> bool:
    """Whether the path belongs to programs rather than to people."""
    return path.startswith(API)


def _check() -> Response | None:
    settings = context().settings
    if request.method not in SAFE:
        sites.refuse_other_sites(request)
    if request.endpoint in PUBLIC:
        return None
    if settings.require_tokens:
        g.caller = _caller()
        if g.caller is None:
            return _ask()
    else:
        sites.refuse_other_names(request)  # without tokens it listens on loopback alone: see app/commands/serve.py
        g.caller = accounts.LOCAL
    if request.endpoint is not None:
        needed = scope_of(current_app.view_functions[request.endpoint], request.method)
        if not g.caller.scope.allows(needed):
            raise Forbidden(f"this needs the scope {needed}, yours is {g.caller.scope}: use a token that allows it")
    return None


def _caller() -> Caller | None:
    """By token, or by a browser's session; on the API a session may only read. None for neither."""
    if "Authorization" in request.headers:
        given = request.authorization
        if given is None or given.type != "bearer" or not given.token:
            raise Unauthorized("the Authorization header is not understood: send `Authorization: Bearer TOKEN`")
        return accounts.authenticate(context(), given.token)
    found = users.signed_in(context(), session)
    return None if is_api(request.path) and request.method not in SAFE else found


def _ask() -> Response:
    """Sends people to the login page. Raises Unauthorized for programs."""
    if is_api(request.path) or request.method not in SAFE:
        raise Unauthorized("this needs a token: send `Authorization: Bearer TOKEN`, made on the page Tokens")
    answer = redirect(url_for("accounts.login", next=request.full_path.rstrip("?")))
    assert isinstance(answer, Response)
    return answer


def own_path(target: str | None) -> str:
    """Where to go after signing in: a path of this service, never another site."""
    return target if target and sites.is_own_path(target) else url_for("leaderboard.index")


def _headers(response: Response) -> Response:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    if response.status_code == Unauthorized.status:
        response.headers.setdefault("WWW-Authenticate", 'Bearer realm="bassline"')
    if is_api(request.path):
        response.headers.setdefault("Cache-Control", "private, no-cache")
    return response
