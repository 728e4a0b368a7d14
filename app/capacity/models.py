"""The table of the load tests that earlier versions stored."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy.orm import Mapped, mapped_column

from app.db.types import Base, Named, utcnow


class LoadTest(Named, Base):
    """One service under load, as an earlier version stored it. Nothing reads the rows; an upgrade keeps them."""

    __tablename__ = "load_tests"

    settings: Mapped[dict[str, Any]]
    idle: Mapped[dict[str, Any]]
    points: Mapped[list[dict[str, Any]]]
    created_at: Mapped[dt.datetime] = mapped_column(default=utcnow, index=True)
