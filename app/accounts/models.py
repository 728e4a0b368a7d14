"""Users and API tokens. Of a token only its sha256 is stored."""

from __future__ import annotations

import datetime as dt
import uuid

from sqlalchemy import ForeignKey, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.db import Base, Identified, utcnow


class User(Identified, Base):
    """A person who may use the service."""

    __tablename__ = "users"
    __table_args__ = (UniqueConstraint("name"),)

    name: Mapped[str] = mapped_column(String(200))
    created_at: Mapped[dt.datetime] = mapped_column(default=utcnow)


class Token(Identified, Base):
    """An API token: `prefix` finds the row, `sha256` proves the secret."""

    __tablename__ = "tokens"
    __table_args__ = (UniqueConstraint("prefix"),)

    name: Mapped[str] = mapped_column(String(200))
    prefix: Mapped[str] = mapped_column(String(20))
    sha256: Mapped[str] = mapped_column(String(64))
    user_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"))
    created_at: Mapped[dt.datetime] = mapped_column(default=utcnow)
    last_used_at: Mapped[dt.datetime | None]
    revoked_at: Mapped[dt.datetime | None]
