"""Load tests, one row for each service that was measured."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy.orm import Mapped, mapped_column

from app.db.types import Base, Named, utcnow


class LoadTest(Named, Base):
    """One service under load. app/capacity/schemas.py declares its documents: settings, idle point, points."""

    __tablename__ = "load_tests"

    settings: Mapped[dict[str, Any]]
    idle: Mapped[dict[str, Any]]
    points: Mapped[list[dict[str, Any]]]
    created_at: Mapped[dt.datetime] = mapped_column(default=utcnow, index=True)
