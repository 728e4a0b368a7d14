"""Stored answers, by the key that the caller chose."""

from __future__ import annotations

import datetime as dt
import uuid

from sqlalchemy import ForeignKey, LargeBinary, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.core.db.types import Base, Identified


class IdempotencyKey(Identified, Base):
    """One POST of one caller."""

    __tablename__ = "idempotency_keys"
    __table_args__ = (UniqueConstraint("caller", "key"),)

    caller: Mapped[str] = mapped_column(String(100))
    key: Mapped[str] = mapped_column(String(200))
    request_sha256: Mapped[str] = mapped_column(String(64))  # of path and body
    status: Mapped[int | None]  # None while the request is being answered
    content_type: Mapped[str | None] = mapped_column(String(100))
    location: Mapped[str | None] = mapped_column(String(500))
    body: Mapped[bytes | None] = mapped_column(LargeBinary)
    owner: Mapped[str | None] = mapped_column(String(300))  # the process that answers (app/web/http/claim_owners.py)
    # The run that the request stored, set in the same transaction: the key is deleted with the run.
    run_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), index=True)
    expires_at: Mapped[dt.datetime] = mapped_column(index=True)
