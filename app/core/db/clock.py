"""Times that processes of several hosts compare, and times that must not run backwards when a host's clock is set."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import ColumnElement, Interval, case, func, literal, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from app.core.db.types import UtcDateTime, get_utc_time


def build_database_time(session: Session, seconds: float = 0.0) -> ColumnElement[dt.datetime]:
    """The time `seconds` from now by the database's clock, as an expression.

    Leases and heartbeats are written by it: the clock of one host may jump. SQLite has no other clock than this host's.
    """
    if session.get_bind().dialect.name == "sqlite":
        return literal(get_utc_time() + dt.timedelta(seconds=seconds), UtcDateTime())
    return func.clock_timestamp() + literal(dt.timedelta(seconds=seconds), Interval())


def read_database_time(session: Session) -> dt.datetime:
    """The present time by the database's clock."""
    if session.get_bind().dialect.name == "sqlite":
        return get_utc_time()
    return session.execute(select(func.clock_timestamp(type_=UtcDateTime()))).scalar_one()


def clamp_end_to_start(
    start: InstrumentedAttribute[dt.datetime | None], end: dt.datetime
) -> ColumnElement[dt.datetime | None]:
    """`end`, or the column `start` where a clock that was set back would make the end the earlier one."""
    return case((start > end, start), else_=literal(end, UtcDateTime()))
