"""Signing in and out, and the page of API tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import Blueprint, g, redirect, render_template, request, session, url_for
from werkzeug.wrappers import Response

from app.accounts import service, users
from app.core.errors import BadInputError, BasslineError, NotFoundError, UnauthorizedError
from app.core.states import Scope
from app.web.http.request_context import get_context, get_singleton
from app.web.http.security import USER_KEY, choose_next_path, get_caller, require_scope

if TYPE_CHECKING:
    from app.accounts.oidc import Provider

bp = Blueprint("accounts", __name__)
NEXT = "next"  # where the cookie keeps the page to go to after signing in at the provider
LIFETIMES = (("30d", "after 30 days"), ("90d", "after 90 days"), ("365d", "after a year"), ("never", "never"))


@bp.app_context_processor
def _signed_in_name() -> dict[str, object]:
    """`signed_in` is the name of the user who may sign out; None for others."""
    sender = g.get("caller")
    return {"signed_in": sender.name if sender and sender.key.startswith(USER_KEY) else None}


@bp.get("/login")
def login() -> str | Response:
    """The login form; after the login, the browser goes to `?next=`."""
    if not get_context().settings.require_tokens:
        return redirect(url_for("first_page.index"))
    return _login_page("", request.args.get("next", ""), {})


@bp.post("/login")
def sign_in() -> Response | tuple[str, int]:
    """Begins a session and redirects to the requested page."""
    name, target = request.form.get("name", ""), request.form.get("next", "")
    try:
        users.sign_in(get_context(), session, name, request.form.get("password", ""))
    except UnauthorizedError as fault:
        return _login_page(name, target, {"password": str(fault)}), fault.status
    session.permanent = True
    return redirect(choose_next_path(target), 303)


@bp.get("/login/oidc")
def begin_oidc() -> Response | tuple[str, int]:
    """Sends the browser to the sign-in provider."""
    session[NEXT] = request.args.get("next", "")
    try:
        return _get_provider().redirect()
    except BasslineError as fault:
        return _login_page("", session[NEXT], {"oidc": str(fault)}), fault.status


@bp.get("/login/oidc/callback")
def finish_oidc() -> Response | tuple[str, int]:
    """Begins a session of the user whom the provider sent back, and redirects to the requested page."""
    target = session.get(NEXT, "")
    try:
        user = _get_provider().find_user()
    except BasslineError as fault:
        return _login_page("", target, {"oidc": str(fault)}), fault.status
    users.begin_session(get_context(), session, user)
    session.permanent = True
    return redirect(choose_next_path(target), 303)


@bp.post("/logout")
@require_scope(Scope.READ)
def logout() -> Response:
    """Ends this browser's session."""
    users.sign_out(get_context(), session)
    return redirect(url_for("accounts.login"), 303)


@bp.get("/tokens")
def tokens() -> str:
    """The caller's tokens; all tokens for an admin."""
    return _render_tokens({}, {})


@bp.post("/tokens")
@require_scope(Scope.READ)
def create_token() -> str | tuple[str, int]:
    """Makes a token and shows it once."""
    name, scope = request.form.get("name", ""), request.form.get("scope", "")
    expires = request.form.get("expires", "never")
    try:
        if scope not in set(Scope):
            raise BadInputError(f"scope is {scope[:60]!r}: choose one of {', '.join(Scope)}", "scope")
        lifetime = service.parse_lifetime(expires)
        made = service.create_token(get_context(), name, Scope(scope), get_caller(), lifetime=lifetime)
    except BadInputError as fault:
        values = {"name": name, "scope": scope, "expires": expires}
        return _render_tokens(values, {fault.field or "": str(fault)}), fault.status
    return _render_tokens({}, {}, made)


@bp.post("/tokens/<prefix>/revoke")
@require_scope(Scope.READ)
def revoke_token(prefix: str) -> Response:
    """Revokes a token."""
    service.revoke_token(get_context(), prefix, get_caller())
    return redirect(url_for("accounts.tokens"), 303)


def _login_page(name: str, target: str, errors: dict[str, str]) -> str:
    oidc = bool(get_context().settings.oidc_issuer)
    return render_template("accounts/login.html", name=name, next=target, errors=errors, oidc=oidc)


def _get_provider() -> Provider:
    """Raises NotFoundError where the settings name none."""
    settings = get_context().settings
    if not (settings.oidc_issuer and settings.require_tokens):
        raise NotFoundError("this service has no sign-in provider: sign in with name and password")
    from app.accounts.oidc import Provider  # noqa: PLC0415 (its libraries take memory that most services can save)

    return get_singleton(Provider)


def _render_tokens(values: dict[str, str], errors: dict[str, str], made: str | None = None) -> str:
    with get_context().database.read() as fresh:  # the request's session may have begun before the change
        rows = service.list_tokens(fresh, get_caller())
    scope = service.get_lower_scope(Scope.SUBMIT, get_caller().scope)
    return render_template(
        "accounts/tokens.html",
        rows=rows,
        values={"name": "", "expires": "90d", "scope": scope, **values},
        scopes=[one for one in Scope if get_caller().scope.allows(one)],
        lifetimes=LIFETIMES,
        errors=errors,
        made=made,
        may_manage=get_caller().manages_tokens,
        required=get_context().settings.require_tokens,
    )
