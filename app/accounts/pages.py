"""Signing in and out, and the page of API tokens."""

from __future__ import annotations

from flask import Blueprint, redirect, render_template, request, session, url_for
from werkzeug.wrappers import Response

from app.accounts import service, users
from app.core.errors import BadInputError, UnauthorizedError
from app.core.states import Scope
from app.web.http import web
from app.web.http.security import caller, needs, own_path

bp = Blueprint("accounts", __name__)


@bp.app_context_processor
def _signed_in_name() -> dict[str, object]:
    """`signed_in` is the name to show beside Sign out; None if the service has no login."""
    return {"signed_in": session.get("name") if web.context().settings.require_tokens else None}


@bp.get("/login")
def login() -> str | Response:
    """The login form; after the login, the browser goes to `?next=`."""
    if not web.context().settings.require_tokens:
        return redirect(url_for("leaderboard.index"))
    return render_template("accounts/login.html", name="", next=request.args.get("next", ""), errors={})


@bp.post("/login")
def sign_in() -> Response | tuple[str, int]:
    """Begins a session and redirects to the requested page."""
    name, target = request.form.get("name", ""), request.form.get("next", "")
    try:
        found = users.sign_in(web.context(), session, name, request.form.get("password", ""))
    except UnauthorizedError as fault:
        page = render_template("accounts/login.html", name=name, next=target, errors={"password": str(fault)})
        return page, fault.status
    session.permanent = True
    session["name"] = found.name
    return redirect(own_path(target), 303)


@bp.post("/logout")
@needs(Scope.READ)
def logout() -> Response:
    """Ends this browser's session."""
    users.sign_out(web.context(), session)
    return redirect(url_for("accounts.login"), 303)


@bp.get("/tokens")
def tokens() -> str:
    """The caller's tokens; all tokens for an admin."""
    return _tokens({}, {})


@bp.post("/tokens")
@needs(Scope.READ)
def create_token() -> str | tuple[str, int]:
    """Makes a token and shows it once."""
    name, scope = request.form.get("name", ""), request.form.get("scope", "")
    try:
        if scope not in set(Scope):
            raise BadInputError(f"scope is {scope[:60]!r}: choose one of {', '.join(Scope)}", "scope")
        made = service.create_token(web.context(), name, Scope(scope), caller())
    except BadInputError as fault:
        return _tokens({"name": name, "scope": scope}, {fault.field or "": str(fault)}), fault.status
    return _tokens({}, {}, made)


@bp.post("/tokens/<prefix>/revoke")
@needs(Scope.READ)
def revoke_token(prefix: str) -> Response:
    """Revokes a token."""
    service.revoke_token(web.context(), prefix, caller())
    return redirect(url_for("accounts.tokens"), 303)


def _tokens(values: dict[str, str], errors: dict[str, str], made: str | None = None) -> str:
    with web.context().database.read() as fresh:  # the request's session may have begun before the change
        rows = service.list_tokens(fresh, caller())
    return render_template(
        "accounts/tokens.html",
        rows=rows,
        values={"name": "", "scope": str(min(Scope.SUBMIT, caller().scope, key=list(Scope).index)), **values},
        scopes=[scope for scope in Scope if caller().scope.allows(scope)],
        errors=errors,
        made=made,
        may_manage=caller().manages_tokens,
        required=web.context().settings.require_tokens,
    )
