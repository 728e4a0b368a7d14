"""Users with name and password, and the sessions of their browsers."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import MutableMapping, Sequence
from functools import cache
from typing import Any

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerifyMismatchError
from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, joinedload

from app.accounts.models import BrowserSession, User
from app.accounts.service import check_name, to_caller
from app.core.context import Context
from app.core.db.storable import find_unstorable_reason
from app.core.db.types import get_utc_time
from app.core.errors import BadInputError, ConflictError, NotFoundError, UnauthorizedError
from app.core.states import Scope
from app.web.http.security import Caller

MIN_PASSWORD_LENGTH, MAX_PASSWORD_LENGTH = 12, 1000
SESSION_LIFETIME = dt.timedelta(days=14)
SESSION_ID_KEY = "session"  # where the signed cookie holds the id
_hasher = PasswordHasher()  # argon2id, 64 MiB, 3 passes: the second recommended option of RFC 9106


def create_user(ctx: Context, name: str, password: str, scope: Scope) -> None:
    """Stores a user. Raises BadInputError for an invalid name or password, ConflictError for a name that is taken."""
    row = User(
        name=check_name(name, "give the name to sign in with"), scope=scope, password_hash=_hash_password(password)
    )
    try:
        with ctx.database.session() as session:
            session.add(row)
    except IntegrityError:
        raise ConflictError(f"there is a user {name!r} already: choose another name") from None


def set_password(ctx: Context, name: str, password: str) -> None:
    """Changes the password and ends every session of the user. Raises NotFoundError or BadInputError."""
    hashed = _hash_password(password)
    with ctx.database.session() as session:
        user = _get_user(session, name)
        user.password_hash = hashed
        session.execute(delete(BrowserSession).where(BrowserSession.user_id == user.id))


def set_scope(ctx: Context, name: str, scope: Scope) -> None:
    """Changes what a user may do, at once. Raises NotFoundError."""
    with ctx.database.session() as session:
        _get_user(session, name).scope = scope


def delete_user(ctx: Context, name: str) -> None:
    """Removes the user with sessions and tokens. Raises NotFoundError."""
    with ctx.database.session() as session:
        session.delete(_get_user(session, name))


def list_users(session: Session) -> Sequence[User]:
    """All users by name."""
    return session.scalars(select(User).order_by(User.name)).all()


def get_provider_user(ctx: Context, issuer: str, subject: str, name: str) -> User:
    """The user with this subject at the provider, stored at the first sign-in under this name.

    Raises ConflictError for a name that another user has.
    """
    query = select(User).where(User.oidc_issuer == issuer, User.oidc_subject == subject)
    with ctx.database.read() as session:
        if user := session.scalar(query):
            return user
    name = check_name(name, "give the account an e-mail address")
    scope = ctx.settings.oidc_scope
    user = User(name=name, scope=scope, password_hash="", oidc_issuer=issuer, oidc_subject=subject)
    try:
        with ctx.database.session() as session:
            session.add(user)
    except IntegrityError:
        with ctx.database.read() as session:
            if (stored := session.scalar(query)) is not None:  # another browser of the same user was first
                return stored
        raise ConflictError(f"another user has the name {name}: ask who runs this service to delete that one") from None
    return user


def sign_in(ctx: Context, browser: MutableMapping[str, Any], name: str, password: str) -> Caller:
    """Begins a session in the browser's signed cookie. Raises UnauthorizedError, with one sentence for both causes."""
    # An unknown name is verified against a hash too, so that it takes as long as a wrong password. The hash is made
    # before the name is looked up, so that the first sign-in takes as long for both as well.
    placeholder = _placeholder_hash()
    with ctx.database.read() as session:
        user = None if find_unstorable_reason(name) else session.scalar(select(User).where(User.name == name.strip()))
    try:
        _hasher.verify((user and user.password_hash) or placeholder, password[:MAX_PASSWORD_LENGTH])
    except (VerifyMismatchError, InvalidHashError):
        user = None
    if user is None or not user.password_hash:
        raise UnauthorizedError("name or password is wrong: try again, or ask who runs this service")
    return begin_session(ctx, browser, user)


def begin_session(ctx: Context, browser: MutableMapping[str, Any], user: User) -> Caller:
    """Begins a session of the user in the browser's signed cookie, in place of any other."""
    sign_out(ctx, browser)
    row = BrowserSession(user_id=user.id, expires_at=get_utc_time() + SESSION_LIFETIME)
    with ctx.database.session() as session:
        session.add(row)
    browser[SESSION_ID_KEY] = str(row.id)
    return to_caller(user)


def sign_out(ctx: Context, browser: MutableMapping[str, Any]) -> None:
    """Ends the browser's session, if it has one; copies of its cookie become invalid too."""
    known = _parse_session_id(browser)
    browser.clear()
    if known is not None:
        with ctx.database.session() as session:
            session.execute(delete(BrowserSession).where(BrowserSession.id == known))


def find_signed_in_user(ctx: Context, browser: MutableMapping[str, Any]) -> Caller | None:
    """The user of the browser's session; None without a valid session."""
    known = _parse_session_id(browser)
    if known is None:
        return None
    with ctx.database.read() as session:
        row = session.get(BrowserSession, known, options=[joinedload(BrowserSession.user, innerjoin=True)])
    return None if row is None or row.expires_at <= get_utc_time() else to_caller(row.user)


def _parse_session_id(browser: MutableMapping[str, Any]) -> uuid.UUID | None:
    """The id of the session in a cookie; None if it holds none."""
    return uuid.UUID(browser[SESSION_ID_KEY]) if SESSION_ID_KEY in browser else None


def _get_user(session: Session, name: str) -> User:
    user = session.scalar(select(User).where(User.name == name).with_for_update())  # not deleted meanwhile
    if user is None:
        raise NotFoundError(f"there is no user {name!r}: `bassline users list` lists the existing ones")
    return user


@cache
def _placeholder_hash() -> str:
    """Made on the first sign-in: argon2 takes 64 MiB and a tenth of a second, which no import should cost."""
    return _hasher.hash("no user has this password")


def _hash_password(password: str) -> str:
    if not MIN_PASSWORD_LENGTH <= len(password) <= MAX_PASSWORD_LENGTH:
        raise BadInputError(
            f"the password has {len(password)} characters: give {MIN_PASSWORD_LENGTH} to {MAX_PASSWORD_LENGTH}",
            "password",
        )
    return _hasher.hash(password)
