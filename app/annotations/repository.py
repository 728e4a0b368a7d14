"""Queries about annotations. Every function takes an open session."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.annotations.models import Annotatable, TagRow

SUGGESTED = 100  # tags, while one types


def known_tags(session: Session, table: type[TagRow]) -> list[str]:
    """The tags in use, the most frequent ones, in alphabetical order."""
    frequent = select(table.tag).group_by(table.tag).order_by(func.count().desc(), table.tag).limit(SUGGESTED)
    return sorted(session.scalars(frequent))


def any_archived(session: Session, table: type[Annotatable]) -> bool:
    """Whether any row is archived; an empty list then says so."""
    mapped: Any = table
    return session.scalar(select(mapped.id).where(table.archived.is_(True)).limit(1)) is not None
