"""The table of background work, and the columns by which one worker at a time owns a row of this or another table."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

from sqlalchemy import Index, LargeBinary, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from app.core.db.types import Base, Identified, build_text_enum, get_utc_time
from app.core.states import BackgroundJobState

OPEN = "state IN ('queued', 'running')"


class Leased(Identified):
    """Mixin: who works on a row, until when, and how often it was claimed (app/background/leases.py)."""

    attempt: Mapped[int] = mapped_column(default=0)
    fence: Mapped[uuid.UUID | None]  # a worker that holds another one has lost the row, and writes nothing
    claimed_by: Mapped[str | None] = mapped_column(String(200))  # the worker that claimed it last
    lease_until: Mapped[dt.datetime | None]
    enqueued_at: Mapped[dt.datetime | None]  # when a broker message was last sent for it


class BackgroundJob(Leased, Base):
    """One piece of work that outlives a request: what it is, who does it, how far it is, and what came of it.

    `attempt` counts the claims since a step was last stored. The decoding and grading of a run's tasks are rows of
    `run_tasks`, which are leased in the same way.
    """

    __tablename__ = "jobs"
    __table_args__ = (
        Index("ix_jobs_state_lease_until", "state", "lease_until"),
        # Two workers never do the same work: at most one job with a key is open.
        Index("ix_jobs_open_key", "kind", "key", unique=True, postgresql_where=text(OPEN), sqlite_where=text(OPEN)),
    )

    kind: Mapped[str] = mapped_column(String(40))  # one of the registered handlers, or of a command
    subject: Mapped[str] = mapped_column(String(300))  # for people: the name of a run, a dataset, a model, a project
    key: Mapped[str | None] = mapped_column(String(300))  # equal for equal work
    queue: Mapped[str | None] = mapped_column(String(40))  # where its messages go; None: no other process can do it
    priority: Mapped[int] = mapped_column(default=0)  # the highest is sent first
    state: Mapped[BackgroundJobState] = mapped_column(
        build_text_enum(BackgroundJobState, "state"), default=BackgroundJobState.QUEUED
    )
    done: Mapped[int] = mapped_column(default=0)
    total: Mapped[int] = mapped_column(default=0)
    message: Mapped[str] = mapped_column(Text, default="")
    arguments: Mapped[dict[str, Any]] = mapped_column(default=dict)
    input: Mapped[bytes | None] = mapped_column(LargeBinary, deferred=True)  # a file, which some ends of a job drop
    cursor: Mapped[dict[str, Any]] = mapped_column(default=dict)  # where to resume
    result: Mapped[dict[str, Any] | None]
    error: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[dt.datetime] = mapped_column(default=get_utc_time)
    started_at: Mapped[dt.datetime | None]
    finished_at: Mapped[dt.datetime | None]
    cancel_requested_at: Mapped[dt.datetime | None]
