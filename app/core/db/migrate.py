"""Runs the migrations from code, under a lock, so that two processes cannot run them at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from filelock import FileLock
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from app.core.db.database import Database, make_folder
from app.core.errors import UnavailableError

MIGRATIONS = Path(__file__).resolve().parents[3] / "migrations"
ADVISORY_LOCK = 0x6261_7373  # "bass"

_OTHER_DATABASE = "BASSLINE_DATABASE_URL or BASSLINE_DATA_DIR"


def upgrade(database: Database, revision: str = "head") -> None:
    """Runs the migrations up to `revision`. Waits for another process that is doing the same, on PostgreSQL at
    most 30 s.

    Raises UnavailableError for a database of another version, and where it refuses a change.
    """
    require_known(get_current_revision(database))
    with _begin_changes(database) as connection:
        command.upgrade(_build_config(connection), revision)


def downgrade(database: Database, revision: str) -> None:
    """Runs the migrations down to `revision` ("base" empties the schema). Raises UnavailableError if it is refused."""
    with _begin_changes(database) as connection:
        command.downgrade(_build_config(connection), revision)


@cache
def get_newest_revision() -> str:
    """The newest revision of the code. Alembic compiles all migrations to find it."""
    revision = ScriptDirectory.from_config(_build_config(None)).get_current_head()
    assert revision is not None
    return revision


def get_current_revision(database: Database) -> str | None:
    """The revision the database is at; None for an empty one. Raises UnavailableError if it cannot be opened."""
    with database.connect(read_only=True) as connection:
        return MigrationContext.configure(connection).get_current_revision()


def ensure_newest_schema(database: Database) -> None:
    """Upgrades a SQLite database to the newest revision.

    Raises UnavailableError for a database that cannot be opened, for one of another version, and for a PostgreSQL
    database at another revision.
    """
    revision = get_current_revision(database)
    if revision == get_newest_revision():
        return
    require_known(revision)
    if not database.is_sqlite:
        raise UnavailableError("the database is not at the newest schema: run `bassline db upgrade` first")
    upgrade(database)


def is_known(revision: str) -> bool:
    """Whether this version has the migration that makes this revision."""
    return revision in {script.revision for script in ScriptDirectory.from_config(_build_config(None)).walk_revisions()}


def require_known(revision: str | None) -> None:
    """Raises UnavailableError for a database that this version cannot upgrade."""
    if revision is not None and not is_known(revision):
        raise UnavailableError(
            f"another version of Bassline made this database (its schema is {revision}, the newest here is "
            f"{get_newest_revision()}): use that version, or another database with {_OTHER_DATABASE}"
        )


def _build_config(connection: Connection | None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    return config


@contextmanager
def _begin_changes(database: Database) -> Iterator[Connection]:
    """A connection under the lock. What the database refuses becomes UnavailableError."""
    try:
        with _hold_lock(database) as connection:
            yield connection
    except DBAPIError as error:
        # For example one that an unreleased version changed, or a migration that waits for a lock in vain.
        raise UnavailableError(
            f"the database stays at schema {get_current_revision(database) or 'none'}, because it refuses the next "
            f"change ({' '.join(str(error.orig).split())}): end what uses it and try again, restore a backup, or use "
            f"another database with {_OTHER_DATABASE}"
        ) from error


@contextmanager
def _hold_lock(database: Database) -> Iterator[Connection]:
    if database.is_sqlite:
        with _lock_file(database.file), database.connect() as connection, _disable_foreign_keys(connection):
            yield connection
            connection.commit()
        return
    with database.connect() as connection:
        connection.execute(text("SET lock_timeout = '30s'"))
        connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": ADVISORY_LOCK})
        connection.commit()
        try:
            yield connection
            connection.commit()
        finally:
            connection.rollback()
            connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": ADVISORY_LOCK})
            connection.commit()


@contextmanager
def _disable_foreign_keys(connection: Connection) -> Iterator[None]:
    """To change a table of SQLite, Alembic copies and drops it: foreign keys would delete the rows that refer to it."""
    # SQLAlchemy's connection would begin a transaction, in which SQLite ignores this PRAGMA.
    driver: Any = connection.connection.driver_connection
    driver.execute("PRAGMA foreign_keys=OFF")
    try:
        yield
    finally:
        connection.rollback()
        driver.execute("PRAGMA foreign_keys=ON")


def _lock_file(file: Path | None) -> AbstractContextManager[object]:
    if file is None:
        return nullcontext()
    make_folder(file.parent)
    return FileLock(file.with_suffix(".migrate.lock"))
