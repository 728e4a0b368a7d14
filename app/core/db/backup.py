"""Backups of a whole SQLite database, by its backup API; PostgreSQL has its own programs.

A backup or a restore that fails or is killed leaves what was there before.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from app.core.db import migrate
from app.core.db.database import Database, make_folder
from app.core.errors import BadInputError, ConflictError, UnavailableError

SQLITE_WAIT_S = 10.0


def save_backup(database: Database, file: Path) -> None:
    """Writes the database to a new file, as it is at one moment; others may go on writing to the database.

    Raises BadInputError for a file that exists or cannot be made, UnavailableError without a database of SQLite.
    """
    source = _require_sqlite(database)
    if file.exists():
        raise BadInputError(f"{file} exists already: name a new file, or move that one away", "file")
    if not source.is_file():
        raise UnavailableError(f"there is no database {source}: check BASSLINE_DATABASE_URL or BASSLINE_DATA_DIR")
    if migrate.get_current_revision(database) is None:
        raise UnavailableError(f"{source} has no schema, so there is nothing to save: check BASSLINE_DATABASE_URL")
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        part.touch(mode=0o600, exist_ok=False)  # it holds prompts and hashes of passwords
    except OSError as error:
        raise BadInputError(f"{file} cannot be written: {error.strerror}", "file") from None
    try:
        with _explain_faults(source), _open(source) as connection:
            connection.execute("VACUUM INTO ?", (str(part),))
        part.replace(file)
    except OSError as error:
        raise BadInputError(f"{file} cannot be written: {error.strerror}", "file") from None
    finally:
        part.unlink(missing_ok=True)


def restore_backup(database: Database, file: Path, *, replace: bool) -> str:
    """Replaces the content of the database by the backup's, whole or not at all. Returns the backup's schema. Nothing
    else may use the database.

    Raises BadInputError for a file that is not a backup or has a schema that this version does not know,
    ConflictError for a database that exists, without `replace`, and UnavailableError if it is in use or not SQLite's.
    """
    target = _require_sqlite(database)
    schema = _read_schema(file)
    if not migrate.is_known(schema):
        raise BadInputError(
            f"{file} has schema {schema}, which this version does not know (its newest is "
            f"{migrate.get_newest_revision()}): restore it with the version of Bassline that made it",
            "file",
        )
    if target.exists() and not replace:
        raise ConflictError(f"there is a database {target}: give --replace to delete all of it, or use another one")
    make_folder(target.parent)
    with (
        _explain_faults(target),
        closing(sqlite3.connect(target, timeout=SQLITE_WAIT_S)) as connection,
        _open(file) as backup,
    ):
        backup.backup(connection)
    return schema


def _require_sqlite(database: Database) -> Path:
    if database.file is None:
        raise UnavailableError("this saves and restores files of SQLite: use pg_dump and pg_restore for PostgreSQL")
    return database.file


def _read_schema(file: Path) -> str:
    """The schema of a file that is a whole backup. Raises BadInputError for any other."""
    if not file.is_file():
        raise BadInputError(f"there is no file {file}: name one that `bassline db backup` made", "file")
    try:
        with _open(file) as connection:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.Error as error:
        verdict, row = str(error), None
    if verdict != "ok" or row is None:
        raise BadInputError(
            f"{file} is not a whole backup ({verdict}): give a file that `bassline db backup` made", "file"
        )
    return str(row[0])


@contextmanager
def _explain_faults(database: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise UnavailableError(f"{database} cannot be copied: {error}; end what uses it and try again") from None


@contextmanager
def _open(file: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a file that exists: without `mode` SQLite would make an empty one."""
    uri = f"{file.absolute().as_uri()}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=SQLITE_WAIT_S)) as connection:
        yield connection
