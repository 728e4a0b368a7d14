"""The database: one engine per process and the sessions over it. Imports no web framework."""

from __future__ import annotations

import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import Connection, CursorResult, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session
from sqlalchemy.pool import QueuePool

from app.core.errors import UnavailableError

log = structlog.get_logger(__name__)
OUTAGES = (InterfaceError, OperationalError, PoolTimeout)
"""The database is away, locked or full, or every connection is taken: the same may succeed a little later."""
READ_ONLY = "bassline_read_only"
SHORTEST_TURN_S, LONGEST_TURN_S = 0.02, 0.12  # a writer that waits for SQLite looks again after 25 to 100 ms
AFTER_COMMIT = "bassline_after_commit"
CONNECTIONS = 32  # of a process at a time: each thread holds one at most, so those that wait get one in their turn
HEARTBEAT_CONNECTIONS = 2  # besides, for the threads that prove that this process is alive
KEPT_CONNECTIONS = 8  # open while nobody uses them
CONNECTION_WAIT_S = 60.0
BUSY_MS = 30_000  # for which a writer of SQLite waits for another one

# Detects a dead server or network within 30 seconds; the kernel's defaults take a quarter of an hour.
POSTGRESQL = {"connect_timeout": 10, "keepalives_idle": 30, "tcp_user_timeout": 30_000}


class Database:
    """One engine per process, made on first use, and the sessions over it.

    A thread holds one connection at a time: a session that is opened while a reader is open takes its connection, and
    the reader gets another when it is used again. Threads that held one and waited for a second would wait for each
    other once there are more of them than connections.
    """

    def __init__(self, url: str, connections: int = CONNECTIONS) -> None:
        self.url = url
        self._connections = connections
        self._engine: Engine | None = None
        self._reading: Engine | None = None
        self._heartbeats: Database | None = None
        self._readers = _ThreadReaders()
        self._making = threading.Lock()

    @property
    def heartbeats(self) -> Database:
        """The same database over connections of its own, for heartbeats: no request or job can take them."""
        with self._making:
            if self._heartbeats is None:
                self._heartbeats = Database(self.url, HEARTBEAT_CONNECTIONS)
            return self._heartbeats

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is SQLite's."""
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
        with self._making:
            if self._engine is None:
                self._engine = self._create_engine()
            return self._engine

    def _create_engine(self) -> Engine:
        if self.file:
            make_folder(self.file.parent)
        options: dict[str, Any] = {} if self.is_sqlite else {"pool_pre_ping": True, "connect_args": POSTGRESQL}
        kept = min(self._connections, KEPT_CONNECTIONS)
        created = create_engine(
            self.url,
            poolclass=QueuePool,
            pool_size=kept,
            max_overflow=self._connections - kept,
            pool_timeout=CONNECTION_WAIT_S,
            **options,
        )
        if self.is_sqlite:
            event.listen(created, "connect", _configure_sqlite)
            event.listen(created, "begin", _begin_sqlite)
        return created

    def connect(self, *, read_only: bool = False) -> Connection:
        """A connection outside of any session; on SQLite one that is `read_only` waits for no writer and blocks none.

        Raises UnavailableError, naming the database, if it cannot be opened.
        """
        self._readers.release_connections()
        try:
            return self.engine.connect().execution_options(**{READ_ONLY: read_only})
        except DBAPIError as error:
            raise UnavailableError(
                f"the database {make_url(self.url).render_as_string()} cannot be opened: {summarize_error(error)}; "
                "check BASSLINE_DATABASE_URL"
            ) from None

    @contextmanager
    def session(self) -> Iterator[Session]:
        """One unit of work: commits at the end, rolls back on an exception. Objects stay readable afterwards.

        Then it calls what `call_after_commit` was given, in that order and without holding a connection. The data is
        stored by then, so an action that raises is logged and the others follow.
        """
        self._readers.release_connections()
        with Session(self.engine, expire_on_commit=False) as session, session.begin():
            yield session
        for action in session.info.pop(AFTER_COMMIT, ()):
            try:
                action()
            except Exception as error:
                name = getattr(action.func, "__qualname__", action.func)
                log_failure("an action after COMMIT failed", error, action=name)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session for reading only: on SQLite it never waits for a writer."""
        session = self.open_reader()
        try:
            yield session
        finally:
            session.close()

    def open_reader(self) -> Session:
        """A read-only session that the caller closes (the web's one session per request)."""
        self._readers.release_connections()
        if self._reading is None:
            # AUTOCOMMIT saves BEGIN and COMMIT round trips and holds no transaction open while a page is rendered. Each
            # statement sees its own snapshot either way (READ COMMITTED).
            mode = {READ_ONLY: True} if self.is_sqlite else {"isolation_level": "AUTOCOMMIT"}
            self._reading = self.engine.execution_options(**mode)
        reader = _ReadSession(self._reading, expire_on_commit=False)
        self._readers.add(reader)
        return reader

    def dispose(self) -> None:
        """Closes every connection; the next use opens new ones."""
        if self._heartbeats is not None:
            self._heartbeats.dispose()
        if self._engine is not None:
            self._engine.dispose()
            self._engine = self._reading = None


class _ReadSession(Session):
    """A session that only reads, and can give its connection back while it is open."""

    def release_connection(self) -> None:
        """Gives the connection back. What was read stays; the next statement takes another connection."""
        transaction = self.get_transaction()
        if transaction is not None:
            transaction.close()


class _ThreadReaders(threading.local):
    """The open readers of this thread."""

    def __init__(self) -> None:
        self._open: weakref.WeakSet[_ReadSession] = weakref.WeakSet()

    def add(self, reader: _ReadSession) -> None:
        """Adds one that was just opened."""
        self._open.add(reader)

    def release_connections(self) -> None:
        """Makes every reader of this thread give its connection back."""
        for reader in list(self._open):
            reader.release_connection()


@contextmanager
def begin_short_transaction(database: Database) -> Iterator[Session]:
    """One of many units of work in a row. On SQLite it leaves others the time to write before the next one."""
    began = time.monotonic()
    with database.session() as session:
        yield session
    if database.is_sqlite:
        time.sleep(min(max(time.monotonic() - began, SHORTEST_TURN_S), LONGEST_TURN_S))


def call_after_commit(session: Session, action: Callable[..., object], *args: object) -> None:
    """Calls `action(*args)` once the session's unit of work is committed, and never if it is rolled back.

    Events and broker messages go this way: their receivers find the rows they are about. Both may be lost, so an
    action that raises is only logged.
    """
    session.info.setdefault(AFTER_COMMIT, []).append(partial(action, *args))


def execute_change(session: Session, statement: Any) -> bool:
    """Executes the UPDATE or DELETE. Returns whether it affected a row."""
    result = session.execute(statement, execution_options={"synchronize_session": False})
    assert isinstance(result, CursorResult)
    return result.rowcount > 0


def summarize_error(error: BaseException) -> str:
    """The error in one line: for a database error the server's message without statement and parameters."""
    if isinstance(error, DBAPIError):
        return " ".join(str(error.orig).split())
    return f"{type(error).__name__}: {error}"


DISK_FULL = ("disk is full", "No space left on device", "Disk quota exceeded")


def explain_outage(error: BaseException) -> UnavailableError:
    """A sentence for users, with a remedy, for one of OUTAGES or another refusal of the database."""
    said = summarize_error(error)
    if any(text in said for text in DISK_FULL):
        return UnavailableError(f"the disk of the database is full ({said}): free some space and try again")
    if "is locked" in said:
        return UnavailableError(
            f"another process has been writing to the database for too long ({said}): wait until it has finished, or "
            "end it, and try again"
        )
    if isinstance(error, PoolTimeout):
        return UnavailableError("every connection to the database is in use: try again in a moment")
    return UnavailableError(f"the database is unavailable ({said}): see that it runs, or ask `bassline doctor`")


def log_failure(message: str, error: Exception, **facts: object) -> None:
    """Logs a failure after which the work goes on: an outage in a sentence, any other with its traceback."""
    if isinstance(error, OUTAGES):
        log.warning(message, error=str(explain_outage(error)), **facts)
    else:
        log.error(message, exc_info=error, **facts)


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
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", f"busy_timeout={BUSY_MS}"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    # A write transaction takes its lock at once: upgrading a read lock later can fail with "database is locked".
    mode = "DEFERRED" if connection.get_execution_options().get(READ_ONLY) else "IMMEDIATE"
    connection.exec_driver_sql(f"BEGIN {mode}")
