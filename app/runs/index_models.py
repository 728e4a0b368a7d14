"""The search index: the words of each task's samples."""

from __future__ import annotations

import uuid

from sqlalchemy import BigInteger, Dialect, ForeignKey, Integer, Text
from sqlalchemy.dialects.postgresql import TSVECTOR
from sqlalchemy.orm import Mapped, mapped_column
from sqlalchemy.types import TypeDecorator, TypeEngine

from app.core.db.types import Base


class Words(TypeDecorator[list[str]]):
    """Words as PostgreSQL and SQLite index them: a tsvector without positions, or a text for FTS5.

    The words come from app/samples/words.py. They hold no space, quote or backslash.
    """

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[str]:
        """The column's type."""
        return dialect.type_descriptor(TSVECTOR() if dialect.name == "postgresql" else Text())

    def process_bind_param(self, value: list[str] | None, dialect: Dialect) -> str | None:
        """One text going in."""
        if value is None:
            return None
        return " ".join(f"'{word}'" for word in value) if dialect.name == "postgresql" else " ".join(value)


class TaskWords(Base):
    """The words of all samples of one task of a run; None in rows that an earlier version left.

    One row for a task, because its samples have most words in common: the index is smaller by the number of samples,
    and a word that every sample has makes no million rows. `id` grows with the age of the samples, newest highest.
    Triggers keep SQLite's FTS5 table equal to `words`; PostgreSQL has a GIN index (migration 0033).
    """

    __tablename__ = "task_words"

    id: Mapped[int] = mapped_column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True)
    run_task_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("run_tasks.id", ondelete="CASCADE"), unique=True)
    run_id: Mapped[uuid.UUID] = mapped_column(index=True)
    words: Mapped[list[str] | None] = mapped_column(Words)
