"""Whether the database can store anything: the disk has room, and a row can be written."""

from __future__ import annotations

import datetime as dt
import os
import shutil

from sqlalchemy import insert
from sqlalchemy.exc import SQLAlchemyError

from app.db.database import Database, error_summary
from app.db.types import utcnow
from app.errors import UnavailableError
from app.http.idempotency_models import IdempotencyKey

LEAST_BYTES = 50_000_000  # free on the disk of a SQLite file: a batch of samples and the write-ahead log
_PROBE_BYTES = 64 * 1024  # more than the free part of a page, so that the database must take new ones


def write_fault(database: Database) -> str | None:
    """Why nothing can be stored, None if it can. Leaves nothing behind: its writes are rolled back.

    A rolled back row does not reach the disk of a SQLite file, so the disk's free space is checked as well.
    """
    if database.file is not None:
        free = shutil.disk_usage(database.file.parent).free
        if free < LEAST_BYTES:
            return f"its disk has {free / 1e6:.0f} MB left and needs {LEAST_BYTES / 1e6:.0f}: free some space"
    row = {
        "caller": "readiness",
        "key": "probe",
        "request_sha256": "",
        "body": os.urandom(_PROBE_BYTES),
        "expires_at": utcnow() + dt.timedelta(seconds=1),
    }
    try:
        with database.connect() as connection:
            connection.execute(insert(IdempotencyKey).values(row))
            connection.rollback()
    except (SQLAlchemyError, UnavailableError) as error:
        return f"cannot be written: {error_summary(error)}"
    return None
