"""API tokens: `bass_ID_SECRET`. The id finds the row; of the secret only a sha256 is stored."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import secrets
from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.accounts.models import Token
from app.context import Context
from app.db import utcnow
from app.errors import BadInput, NotFound, Unauthorized

USED_EVERY = dt.timedelta(minutes=1)


def create_token(ctx: Context, name: str) -> str:
    """Makes a token and returns it; it cannot be read again. Raises BadInput for an empty name."""
    if not name.strip():
        raise BadInput("name is empty: say what the token is for", "name")
    prefix, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
    with ctx.database.session() as session:
        session.add(Token(name=name.strip(), prefix=prefix, sha256=_digest(secret)))
    return f"bass_{prefix}_{secret}"


def list_tokens(session: Session) -> Sequence[Token]:
    """All tokens, newest first, revoked ones included."""
    return session.scalars(select(Token).order_by(Token.id.desc())).all()


def revoke_token(ctx: Context, prefix: str) -> None:
    """Makes a token useless from now on. Raises NotFound."""
    with ctx.database.session() as session:
        token = _find(session, prefix)
        if token is None:
            raise NotFound(f"there is no token {prefix!r}: `bassline tokens list` shows those there are")
        token.revoked_at = token.revoked_at or utcnow()


def authenticate(ctx: Context, presented: str) -> None:
    """Raises Unauthorized unless this is a token that was made here and not revoked."""
    prefix, _, secret = presented.removeprefix("bass_").partition("_")
    with ctx.database.read() as session:
        token = _find(session, prefix)
    if token is None or token.revoked_at is not None or not hmac.compare_digest(token.sha256, _digest(secret)):
        raise Unauthorized("the token is not valid: it is unknown or was revoked")
    if token.last_used_at is None or utcnow() - token.last_used_at > USED_EVERY:
        with ctx.database.session() as session:
            session.get_one(Token, token.id).last_used_at = utcnow()


def _find(session: Session, prefix: str) -> Token | None:
    return session.scalar(select(Token).where(Token.prefix == prefix))


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
