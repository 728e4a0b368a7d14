"""The database: engine, sessions, and the column types every table shares. Imports no web framework."""

from __future__ import annotations

import datetime as dt
import enum
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import JSON, Connection, DateTime, Dialect, Engine, Enum, MetaData, Text, Uuid, create_engine, event
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.types import TypeDecorator

from app.errors import Unavailable
from app.ids import new_id

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
READ_ONLY = "bassline_read_only"
# A dead server or network is noticed within half a minute instead of the kernel's quarter of an hour.
POSTGRESQL = {"connect_timeout": 10, "keepalives_idle": 30, "tcp_user_timeout": 30_000}
Json = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


class UtcDateTime(TypeDecorator[dt.datetime]):
    """An aware UTC time on every database; SQLite alone would return naive ones."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: dt.datetime | None, dialect: Dialect) -> dt.datetime | None:
        """UTC going in. Raises ValueError for a naive time."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("times are stored in UTC: pass an aware datetime")
        value = value.astimezone(dt.UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: dt.datetime | None, dialect: Dialect) -> dt.datetime | None:
        """UTC coming out."""
        if value is None:
            return None
        return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)


class OutputText(TypeDecorator[str]):
    """What a model or its program wrote. PostgreSQL cannot hold U+0000: the symbol U+2400 stands in its place.

    U+FFFD stands for half a surrogate pair, which another server or tool may send and no database can hold.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Storable going in."""
        if not value:
            return value
        whole = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return whole.replace("\0", "\N{SYMBOL FOR NULL}")


class Base(DeclarativeBase):
    """All tables. `type_annotation_map` keeps the column types in one place."""

    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {  # noqa: RUF012 (SQLAlchemy reads it off the class)
        dt.datetime: UtcDateTime(),
        uuid.UUID: Uuid(),
        dict[str, Any]: Json,
        list[str]: Json,
        list[float]: Json,
        list[int]: Json,
        list[dict[str, Any]]: Json,
    }


class Identified:
    """Mixin: a UUIDv7 primary key."""

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=new_id)


def utcnow() -> dt.datetime:
    """The current time, aware, UTC."""
    return dt.datetime.now(dt.UTC)


def text_enum(kind: type[enum.StrEnum], name: str) -> Enum:
    """A text column with a named CHECK that holds only the values of `kind`."""
    return Enum(
        kind,
        native_enum=False,
        create_constraint=True,
        name=name,
        length=20,
        values_callable=lambda members: [member.value for member in members],
    )


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

        Raises Unavailable if the folder of a SQLite file cannot be made.
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
        """A connection outside of any session. Raises Unavailable, naming the database, if it cannot be opened."""
        try:
            return self.engine.connect()
        except DBAPIError as error:
            raise Unavailable(
                f"the database {make_url(self.url).render_as_string()} cannot be opened: {reason(error)}; "
                "check BASSLINE_DATABASE_URL"
            ) from None

    @contextmanager
    def session(self) -> Iterator[Session]:
        """One unit of work: commits at the end, rolls back on an exception. Objects stay readable afterwards."""
        with Session(self.engine, expire_on_commit=False) as session, session.begin():
            yield session

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
            # PostgreSQL gives every statement its own view of the data either way; without a transaction it is spared
            # the words around each read, and holds nothing open while a page is made.
            mode = {READ_ONLY: True} if self.is_sqlite else {"isolation_level": "AUTOCOMMIT"}
            self._reading = self.engine.execution_options(**mode)
        return Session(self._reading, expire_on_commit=False)

    def dispose(self) -> None:
        """Closes every connection; the next use opens new ones."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = self._reading = None


def reason(error: BaseException) -> str:
    """What went wrong in one line: of a database error what the server says, without statement and parameters."""
    if isinstance(error, DBAPIError):
        return " ".join(str(error.orig).split())
    return f"{type(error).__name__}: {error}"


def make_folder(folder: Path) -> None:
    """Makes the folder of a SQLite database. Raises Unavailable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(
            f"the database's folder {folder} cannot be made ({error.strerror}): set BASSLINE_DATABASE_URL or "
            "BASSLINE_DATA_DIR to a place that may be written"
        ) from None


def _configure_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # the driver must not open transactions of its own: see _begin_sqlite
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", "busy_timeout=30000"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    # A write transaction takes its lock at once: upgrading a read lock later can fail with "database is locked".
    mode = "DEFERRED" if connection.get_execution_options().get(READ_ONLY) else "IMMEDIATE"
    connection.exec_driver_sql(f"BEGIN {mode}")
