"""Users, their browser sessions, and API tokens. Only hashes are stored: sha256 of tokens, argon2id of passwords."""

from __future__ import annotations

import datetime as dt
import uuid

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from app.core.db.types import Base, Identified, build_text_enum, get_utc_time
from app.core.states import Scope


class User(Identified, Base):
    """A person who signs in."""

    __tablename__ = "users"
    __table_args__ = (
        UniqueConstraint("name"),
        Index("uq_users_oidc_issuer_oidc_subject", "oidc_issuer", "oidc_subject", unique=True),
    )

    name: Mapped[str] = mapped_column(String(200))
    scope: Mapped[Scope] = mapped_column(build_text_enum(Scope, "scope"))
    password_hash: Mapped[str] = mapped_column(String(200))  # empty for a user who signs in by OpenID Connect
    oidc_issuer: Mapped[str | None] = mapped_column(String(500))
    oidc_subject: Mapped[str | None] = mapped_column(String(255))
    created_at: Mapped[dt.datetime] = mapped_column(default=get_utc_time)


class BrowserSession(Identified, Base):
    """One signed-in browser. Its cookie holds the id, and is valid only while this row exists."""

    __tablename__ = "sessions"

    user_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    expires_at: Mapped[dt.datetime] = mapped_column(index=True)

    user: Mapped[User] = relationship()


class Token(Identified, Base):
    """An API token. It never allows more than its owner may do."""

    __tablename__ = "tokens"
    __table_args__ = (UniqueConstraint("prefix"),)

    name: Mapped[str] = mapped_column(String(200))
    prefix: Mapped[str] = mapped_column(String(20))  # identifies the row
    sha256: Mapped[str] = mapped_column(String(64))  # of the secret
    scope: Mapped[Scope] = mapped_column(build_text_enum(Scope, "scope"))
    # the owner; None for a token made on the command line
    user_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    created_at: Mapped[dt.datetime] = mapped_column(default=get_utc_time)
    last_used_at: Mapped[dt.datetime | None]
    expires_at: Mapped[dt.datetime | None]
    revoked_at: Mapped[dt.datetime | None]

    user: Mapped[User | None] = relationship()

    @property
    def state(self) -> str:
        """In a word: revoked, expired or valid."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= get_utc_time() else "valid"
