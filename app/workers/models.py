"""Worker processes, as they last reported themselves."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from app.db import Base, utcnow


class Worker(Base):
    """One worker process. `model` is the target it holds in memory, `loading` the one it is loading; None for none."""

    __tablename__ = "workers"

    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    host: Mapped[str] = mapped_column(String(200))
    pid: Mapped[int]
    device: Mapped[str | None] = mapped_column(String(200))
    model: Mapped[str | None] = mapped_column(String(500))
    loading: Mapped[str | None] = mapped_column(String(500))
    started_at: Mapped[dt.datetime] = mapped_column(default=utcnow)
    last_seen_at: Mapped[dt.datetime] = mapped_column(default=utcnow, index=True)
