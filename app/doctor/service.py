"""Database, broker and workers."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from app.core.broker.broker import connect
from app.core.db import migrate
from app.core.db.database import Database, error_summary
from app.core.errors import UnavailableError
from app.core.observability import hidden
from app.core.settings import Settings
from app.doctor.finding import Finding
from app.monitoring import health

UPGRADE = "Run `bassline db upgrade`."


def database(settings: Settings) -> Iterator[Finding]:
    """Whether the database can be reached and written, and its schema."""
    found = Database(settings.database)
    name = make_url(found.url).render_as_string()
    if found.file and not found.file.exists():
        yield Finding("database", "ok", f"{found.file} is made at the first use")
        return
    try:
        at, head = migrate.current(found), migrate.head()
        yield Finding("database", "ok", name)
        yield _schema(at, head, upgraded_at_start=found.is_sqlite)
        if at is not None:
            _try_to_write(found)
    except UnavailableError as error:
        yield Finding("database", "fail", str(error), "Start the server, or set BASSLINE_DATABASE_URL.")
    except DBAPIError as error:
        yield Finding(
            "database", "fail", f"cannot be written: {error_summary(error)}", "Give the user the right to write it."
        )
    finally:
        found.dispose()


def broker(settings: Settings) -> Iterator[Finding]:
    """Whether messages reach workers."""
    if settings.embedded:
        yield Finding("broker", "ok", "embedded: in the process of `bassline serve` or `bassline eval`")
        return
    fault, url = connect(settings).fault(), hidden(settings.broker_url)
    if fault:
        yield Finding("broker", "fail", f"{url} {fault}", "Start Redis, or set BASSLINE_BROKER_URL.")
    else:
        yield Finding("broker", "ok", url)


def workers(settings: Settings) -> Iterator[Finding]:
    """Whether workers process submitted runs."""
    if settings.embedded:
        yield Finding("workers", "ok", "embedded: in the process of `bassline serve` or `bassline eval`")
        return
    found = Database(settings.database)
    try:
        fault = "not asked: the database is at fault" if health.database_fault(found) else health.workers_fault(found)
    finally:
        found.dispose()
    if fault:
        yield Finding("workers", "fail", fault, "Start `bassline worker`, or repair the parts above.")
    else:
        yield Finding("workers", "ok", "every queue is consumed")


def _schema(at: str | None, head: str, *, upgraded_at_start: bool) -> Finding:
    if at == head:
        return Finding("schema", "ok", at)
    if at is not None and at > head:
        return Finding("schema", "fail", f"{at} is newer than this version's {head}", "Install the newer Bassline.")
    if at is not None and migrate.is_too_old(at):
        return Finding(
            "schema",
            "fail",
            f"{at} is older than what this version upgrades",
            f"{UPGRADE[:-1]} of {migrate.LAST_WITH_OLDER} first.",
        )
    what = f"{at or 'empty'}, this version needs {head}"
    if upgraded_at_start:
        return Finding("schema", "warn", f"{what}: the next start upgrades it", f"Make a copy first. {UPGRADE}")
    return Finding("schema", "fail", what, UPGRADE)


def _try_to_write(found: Database) -> None:
    """Updates the schema's revision to itself and rolls back. Raises DBAPIError if the database refuses writes."""
    with found.connect() as connection:
        if found.is_sqlite:
            connection.exec_driver_sql("PRAGMA busy_timeout=2000")
        connection.execute(text("UPDATE alembic_version SET version_num = version_num"))
        connection.rollback()
