"""Worker processes, as they last reported themselves."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from app.core.db.types import Base, get_utc_time

MODEL_LENGTH = 500


class Worker(Base):
    """One worker process."""

    __tablename__ = "workers"

    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    host: Mapped[str] = mapped_column(String(200))
    pid: Mapped[int]
    device: Mapped[str | None] = mapped_column(String(200))
    # the targets it holds in memory, the last used first; None for none
    model: Mapped[str | None] = mapped_column(String(MODEL_LENGTH))
    loading: Mapped[str | None] = mapped_column(String(MODEL_LENGTH))  # the target it is loading
    node: Mapped[str | None] = mapped_column(String(300), index=True)  # the name that it keeps over restarts
    queues: Mapped[list[str] | None]  # that it consumes; None: every queue
    # processes of its node that died in a row right after their start, before this one
    crashes: Mapped[int] = mapped_column(default=0, server_default="0")
    started_at: Mapped[dt.datetime] = mapped_column(default=get_utc_time)
    stopped_at: Mapped[dt.datetime | None]  # when it was asked to end; it may still finish a task
    last_seen_at: Mapped[dt.datetime] = mapped_column(default=get_utc_time, index=True)

    @property
    def loaded(self) -> list[str]:
        """The targets that it holds in memory."""
        return self.model.split(", ") if self.model else []
