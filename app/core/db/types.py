"""The column types that every table shares, and the base of all tables."""

from __future__ import annotations

import datetime as dt
import enum
import os
import time
import uuid
from typing import Any

from sqlalchemy import JSON, DateTime, Dialect, Enum, MetaData, String, Text, Uuid
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeDecorator

from app.core.db.storable import make_storable


def generate_id() -> uuid.UUID:
    """A UUIDv7: 48 bits of Unix milliseconds, 12 bits of their fraction (section 6.2, method 3), then 62 random bits.

    The fraction orders the ids that a process makes within one millisecond.
    """
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    fraction = nanoseconds * 2**12 // 1_000_000
    random = int.from_bytes(os.urandom(8), "big") >> 2
    return uuid.UUID(int=(milliseconds & (2**48 - 1)) << 80 | 0x7 << 76 | fraction << 64 | 0x2 << 62 | random)


NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

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
    """Text written by a model or its program.

    No database stores a lone surrogate, and PostgreSQL no U+0000. A visible character followed by a variation selector
    replaces each; `storable.restore_original_text` recognizes the pair and restores U+0000, or U+D800 for any
    surrogate.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Storable going in."""
        return make_storable(value) if value else value


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

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=generate_id)


class Named(Identified):
    """Mixin: a name besides, by which people find the newest row (app/core/db/references.py)."""

    name: Mapped[str] = mapped_column(String(200), index=True)


def get_utc_time() -> dt.datetime:
    """The current time, aware, UTC."""
    return dt.datetime.now(dt.UTC)


def build_text_enum(kind: type[enum.StrEnum], name: str) -> Enum:
    """A text column with a named CHECK that holds only the values of `kind`."""
    return Enum(
        kind,
        native_enum=False,
        create_constraint=True,
        name=name,
        length=20,
        values_callable=lambda members: [member.value for member in members],
    )
