"""API tokens of the form `bass_ID_SECRET`. The id identifies the row, which holds only a sha256 of the secret."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence

from sqlalchemy import select, update
from sqlalchemy.orm import Session, joinedload

from app.accounts.models import Token, User
from app.core.context import Context
from app.core.db.storable import clean_name, find_unstorable_reason
from app.core.db.types import get_utc_time
from app.core.errors import BadInputError, ForbiddenError, NotFoundError, UnauthorizedError
from app.core.states import Scope
from app.web.http.security import LOCAL, USER_KEY, Caller

LAST_USED_INTERVAL = dt.timedelta(minutes=1)
LONGEST_NAME = 200
LIFETIME = re.compile(r"([1-9]\d{0,3})([dh])")


def create_token(
    ctx: Context, name: str, scope: Scope, owner: Caller = LOCAL, *, lifetime: dt.timedelta | None = None
) -> str:
    """Makes a token and returns it; it cannot be read again. Without a lifetime it is valid until it is revoked.

    Raises BadInputError for a name that is empty or too long, ForbiddenError for a scope above the owner's own and for
    a token that may not manage others.
    """
    if not owner.manages_tokens:
        raise ForbiddenError("a token makes other tokens only with the scope admin: sign in, or ask an administrator")
    if not owner.scope.allows(scope):
        raise ForbiddenError(f"you may give at most your own scope, {owner.scope}: choose that or a lower one")
    prefix, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
    with ctx.database.session() as session:
        session.add(
            Token(
                name=check_name(name, "name the purpose of the token"),
                prefix=prefix,
                sha256=_hash_secret(secret),
                scope=scope,
                user_id=owner.user_id,
                expires_at=get_utc_time() + lifetime if lifetime else None,
            )
        )
    return f"bass_{prefix}_{secret}"


def list_tokens(session: Session, owner: Caller = LOCAL) -> Sequence[Token]:
    """The owner's tokens, or all for an admin; newest first, revoked ones included, with their users loaded.

    A token made on the command line has no user, so it lists none.
    """
    query = select(Token).options(joinedload(Token.user)).order_by(Token.id.desc())
    if owner.scope is not Scope.ADMIN:
        query = query.where(Token.user_id == owner.user_id, Token.user_id.is_not(None))
    return session.scalars(query).all()


def revoke_token(ctx: Context, prefix: str, owner: Caller = LOCAL) -> None:
    """Revokes a token. Raises NotFoundError, also for a token that the owner may not revoke."""
    with ctx.database.session() as session:
        token = _find_token(session, prefix)
        is_own = token is not None and owner.manages_tokens and token.user_id == owner.user_id
        if token is None or not (owner.scope is Scope.ADMIN or is_own):
            raise NotFoundError(f"there is no token {prefix!r}: `bassline tokens list` lists the existing ones")
        token.revoked_at = token.revoked_at or get_utc_time()


def authenticate(ctx: Context, presented: str) -> Caller:
    """The caller with this token. Raises UnauthorizedError for a token that is unknown, revoked or expired."""
    prefix, _, secret = presented.removeprefix("bass_").partition("_")
    with ctx.database.read() as session:
        token = None if find_unstorable_reason(prefix) else _find_token(session, prefix)
    if token is None or token.revoked_at is not None or not hmac.compare_digest(token.sha256, _hash_secret(secret)):
        raise UnauthorizedError("the token is not valid: it is unknown or was revoked")
    if token.expires_at is not None and token.expires_at <= get_utc_time():
        raise UnauthorizedError(f"the token expired on {token.expires_at:%Y-%m-%d}: make another one")
    if token.last_used_at is None or get_utc_time() - token.last_used_at > LAST_USED_INTERVAL:
        with ctx.database.session() as session:
            session.execute(update(Token).where(Token.id == token.id).values(last_used_at=get_utc_time()))
    allowed = token.scope if token.user is None else get_lower_scope(token.scope, token.user.scope)
    return Caller(f"token:{token.prefix}", token.name, allowed, token.user_id)


def parse_lifetime(text: str) -> dt.timedelta | None:
    """The lifetime of a token: None for `never`. Raises BadInputError."""
    found = LIFETIME.fullmatch(text)
    if text == "never":
        return None
    if found is None:
        raise BadInputError(f"expires is {text[:60]!r}: give days or hours such as 90d or 12h, or never", "expires")
    return dt.timedelta(**{"days" if found[2] == "d" else "hours": int(found[1])})


def get_lower_scope(one: Scope, other: Scope) -> Scope:
    """The scope that allows less."""
    return other if one.allows(other) else one


def check_name(name: str, remedy: str) -> str:
    """The name without surrounding whitespace. Raises BadInputError for a name that is empty, too long or not
    storable."""
    try:
        name = clean_name(name)
    except ValueError:
        name = ""
    if not name:
        raise BadInputError(f"name is empty: {remedy}", "name")
    if len(name) > LONGEST_NAME:
        raise BadInputError(f"name is longer than {LONGEST_NAME} characters: shorten it", "name")
    if fault := find_unstorable_reason(name):
        raise BadInputError(f"name holds {fault}: remove it", "name")
    return name


def to_caller(user: User) -> Caller:
    """The signed-in user as a caller."""
    return Caller(f"{USER_KEY}{user.id}", user.name, user.scope, user.id)


def _find_token(session: Session, prefix: str) -> Token | None:
    return session.scalar(select(Token).options(joinedload(Token.user)).where(Token.prefix == prefix))


def _hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
