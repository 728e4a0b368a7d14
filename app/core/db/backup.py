"""Backups of a whole SQLite database, by its backup API; PostgreSQL has its own programs.

A backup or a restore that fails or is killed leaves what was there before.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import inspect, text

from app.core.db import migrate
from app.core.db.database import Database, make_folder
from app.core.errors import BadInputError, ConflictError, UnavailableError

Progress = Callable[[int, int], None]
"""Called with the pages that are done and the total."""

STEP_PAGES = 2048  # of 4 KiB between two reports of progress
SQLITE_HEADER = b"SQLite format 3\0"
SQLITE_WAIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Backup:
    """A file that holds a database at a schema version."""

    file: Path
    schema: str
    n_bytes: int


def save_backup(database: Database, file: Path, progress: Progress) -> Backup:
    """Writes the database to a new file, as it is at one moment; others may go on writing to the database.

    Raises BadInputError for a file that exists or cannot be made, UnavailableError without a database of SQLite.
    """
    source = _require_sqlite(database)
    if file.exists():
        raise BadInputError(f"{file} exists already: name a new file, or move that one away", "file")
    if not source.is_file():
        raise UnavailableError(f"there is no database {source}: check BASSLINE_DATABASE_URL or BASSLINE_DATA_DIR")
    schema = migrate.get_current_revision(database)
    if schema is None:
        raise UnavailableError("the database has no schema: check BASSLINE_DATABASE_URL, there is nothing to save")
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        part.touch(mode=0o600, exist_ok=False)  # it holds prompts and hashes of passwords
        _copy(source, part, progress)
        with _open(part) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")  # a file in WAL mode needs a folder for its other files
        part.replace(file)
    except OSError as error:
        raise BadInputError(f"{file} cannot be written: {error.strerror}", "file") from None
    finally:
        part.unlink(missing_ok=True)
    return Backup(file, schema, file.stat().st_size)


def restore_backup(database: Database, file: Path, progress: Progress, *, replace: bool) -> Backup:
    """Replaces the content of the database by the backup's, whole or not at all. Nothing else may use the database.

    Raises BadInputError for a file that is not a backup or has a schema that this version does not know,
    ConflictError for rows without `replace`, and UnavailableError if it is in use or is not of SQLite.
    """
    target = _require_sqlite(database)
    backup = _read_backup(file)
    if not replace and (table := _find_table_with_rows(database)):
        raise ConflictError(
            f"the database has rows in {table}: give --replace to delete all of them, or use another one"
        )
    make_folder(target.parent)
    _copy(file, target, progress)
    return backup


def _require_sqlite(database: Database) -> Path:
    if database.file is None:
        raise UnavailableError("this saves and restores files of SQLite: use pg_dump and pg_restore for PostgreSQL")
    return database.file


def _read_backup(file: Path) -> Backup:
    """What a file holds, checked before anything is changed."""
    try:
        with file.open("rb") as opened:
            header = opened.read(len(SQLITE_HEADER))
    except OSError as error:
        raise BadInputError(f"{file} cannot be read: {error.strerror}", "file") from None
    if header != SQLITE_HEADER:
        raise BadInputError(f"{file} is not a backup: give a file that `bassline db backup` made", "file")
    schema = _read_schema(file)
    if schema is None:
        raise BadInputError(f"{file} holds no database of Bassline: it has no schema version", "file")
    if not migrate.is_known(schema):
        raise BadInputError(
            f"{file} has schema {schema}, which this version does not know (its newest is "
            f"{migrate.get_newest_revision()}): restore it with the version of Bassline that made it",
            "file",
        )
    return Backup(file, schema, file.stat().st_size)


def _find_table_with_rows(database: Database) -> str | None:
    if database.file is not None and not database.file.exists():
        return None
    with database.connect(read_only=True) as connection:
        quote = connection.dialect.identifier_preparer.quote
        for table in inspect(connection).get_table_names():
            found = table != "alembic_version" and connection.execute(text(f"SELECT 1 FROM {quote(table)} LIMIT 1"))
            if found and found.first():
                return table
    return None


def _copy(source: Path, target: Path, progress: Progress) -> None:
    """Copies all pages in one transaction of the target, as the source is at its start."""
    try:
        with _open(source) as read, closing(sqlite3.connect(target, timeout=SQLITE_WAIT_S)) as written:
            read.execute("BEGIN")
            read.execute("SELECT 1 FROM sqlite_master").fetchone()  # holds the snapshot: no write starts the copy again
            read.backup(written, pages=STEP_PAGES, progress=lambda _, left, total: progress(total - left, total))
    except sqlite3.Error as error:
        raise UnavailableError(
            f"{source} cannot be copied to {target}: {error}; end what uses it and try again"
        ) from None


def _read_schema(file: Path) -> str | None:
    try:
        with _open(file) as connection:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise BadInputError(f"{file} is damaged: {verdict}; use another backup", "file")
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.OperationalError:
        return None
    except sqlite3.DatabaseError as error:
        raise BadInputError(f"{file} is damaged: {error}; use another backup", "file") from None
    return str(row[0]) if row else None


@contextmanager
def _open(file: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a file that exists: without `mode` SQLite would make an empty one."""
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)) as connection:
        yield connection
