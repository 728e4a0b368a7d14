"""The database: one engine per process and the sessions over it. Imports no web framework."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import Connection, CursorResult, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from app.errors import UnavailableError

log = structlog.get_logger(__name__)
READ_ONLY = "bassline_read_only"
AFTER_COMMIT = "bassline_after_commit"

# Detects a dead server or network within 30 seconds; the kernel's defaults take a quarter of an hour.
POSTGRESQL = {"connect_timeout": 10, "keepalives_idle": 30, "tcp_user_timeout": 30_000}


class Database:
    """One engine per process, made on first use, and the sessions over it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._engine: Engine | None = None
        self._reading: Engine | None = None

    @property
    def is_sqlite(self) -> bool:
        """True for the embedded form's database."""
        return make_url(self.url).get_backend_name() == "sqlite"

    @property
    def file(self) -> Path | None:
        """The SQLite file, or None for a server or an in-memory database."""
        name = make_url(self.url).database
        return Path(name).absolute() if self.is_sqlite and name and name != ":memory:" else None

    @property
    def engine(self) -> Engine:
        """The engine; connects lazily, so creating a Database before a fork or spawn is safe.

        Raises UnavailableError if the folder of a SQLite file cannot be made.
        """
        if self._engine is None:
            if self.file:
                make_folder(self.file.parent)
            options = {} if self.is_sqlite else {"pool_pre_ping": True, "connect_args": POSTGRESQL}
            self._engine = create_engine(self.url, **options)
            if self.is_sqlite:
                event.listen(self._engine, "connect", _configure_sqlite)
                event.listen(self._engine, "begin", _begin_sqlite)
        return self._engine

    def connect(self) -> Connection:
        """A connection outside of any session. Raises UnavailableError, naming the database, if it cannot be opened."""
        try:
            return self.engine.connect()
        except DBAPIError as error:
            raise UnavailableError(
                f"the database {make_url(self.url).render_as_string()} cannot be opened: {error_summary(error)}; "
                "check BASSLINE_DATABASE_URL"
            ) from None

    @contextmanager
    def session(self) -> Iterator[Session]:
        """One unit of work: commits at the end, rolls back on an exception. Objects stay readable afterwards.

        Then it does what `after_commit` was given, in that order and without holding a connection. The data is stored
        by then, so an action that raises is logged and the others follow.
        """
        with Session(self.engine, expire_on_commit=False) as session, session.begin():
            yield session
        for action in session.info.pop(AFTER_COMMIT, ()):
            try:
                action()
            except Exception:
                log.exception("an action after COMMIT failed", action=getattr(action.func, "__qualname__", action.func))

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session for reading only: on SQLite it never waits for a writer."""
        session = self.reader()
        try:
            yield session
        finally:
            session.close()

    def reader(self) -> Session:
        """A read-only session that the caller closes (the web's one session per request)."""
        if self._reading is None:
            # AUTOCOMMIT saves BEGIN and COMMIT round trips and holds no transaction open while a page is rendered. Each
            # statement sees its own snapshot either way (READ COMMITTED).
            mode = {READ_ONLY: True} if self.is_sqlite else {"isolation_level": "AUTOCOMMIT"}
            self._reading = self.engine.execution_options(**mode)
        return Session(self._reading, expire_on_commit=False)

    def dispose(self) -> None:
        """Closes every connection; the next use opens new ones."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = self._reading = None


def after_commit(session: Session, action: Callable[..., object], *args: object) -> None:
    """Calls `action(*args)` once the session's unit of work is committed, and never if it is rolled back.

    Events and broker messages go this way: their receivers find the rows they are about. Both may be lost, so an
    action that raises is only logged.
    """
    session.info.setdefault(AFTER_COMMIT, []).append(partial(action, *args))


def updated_any(session: Session, statement: Any) -> bool:
    """Whether the UPDATE changed a row."""
    result = session.execute(statement, execution_options={"synchronize_session": False})
    assert isinstance(result, CursorResult)
    return result.rowcount > 0


def error_summary(error: BaseException) -> str:
    """The error in one line: for a database error the server's message without statement and parameters."""
    if isinstance(error, DBAPIError):
        return " ".join(str(error.orig).split())
    return f"{type(error).__name__}: {error}"


def make_folder(folder: Path) -> None:
    """Makes the folder of a SQLite database. Raises UnavailableError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnavailableError(
            f"the database's folder {folder} cannot be made ({error.strerror}): set BASSLINE_DATABASE_URL or "
            "BASSLINE_DATA_DIR to a place that may be written"
        ) from None


def _configure_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # the driver must not open transactions: _begin_sqlite does
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", "busy_timeout=30000"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    # A write transaction takes its lock at once: upgrading a read lock later can fail with "database is locked".
    mode = "DEFERRED" if connection.get_execution_options().get(READ_ONLY) else "IMMEDIATE"
    connection.exec_driver_sql(f"BEGIN {mode}")
