"""Trained drafters in the database, one row for each target."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import LargeBinary, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.core.db.types import Base, get_utc_time

LONGEST_TARGET = 500


class PublishedHead(Base):
    """The head that workers draft with for a target. `record`, `config` and `weights` are the contents of its files;
    `sha256` is the hash of its weights."""

    __tablename__ = "published_heads"

    target: Mapped[str] = mapped_column(String(LONGEST_TARGET), primary_key=True)
    sha256: Mapped[str] = mapped_column(String(64))
    record: Mapped[str] = mapped_column(Text)
    config: Mapped[bytes] = mapped_column(LargeBinary)
    weights: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)
    published_at: Mapped[dt.datetime] = mapped_column(default=get_utc_time)
