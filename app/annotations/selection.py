"""Selects the rows of a list by their annotations, and says what there is to select."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from app.annotations.models import Annotatable, TagRow

SUGGESTED = 100  # tags, while one types
S = TypeVar("S", bound=Select[Any])


@dataclass(frozen=True, slots=True)
class Selection:
    """Only rows with this tag (None: with any or none), only starred ones, archived ones as well."""

    tag: str | None = None
    starred: bool = False
    archived: bool = False

    @property
    def narrows(self) -> bool:
        """Whether it leaves out rows that lists show by default."""
        return self.starred or self.tag is not None

    def of(self, query: S, table: type[Annotatable]) -> S:
        """The query over `table` with these conditions."""
        if not self.archived:
            query = query.where(table.archived.is_(False))
        if self.starred:
            query = query.where(table.starred.is_(True))
        if self.tag is not None:
            query = query.where(table.tag_rows.any(tag=self.tag))
        return query

    def fits(self, tags: Collection[str], *, starred: bool, archived: bool) -> bool:
        """Whether a row in memory matches these conditions."""
        return (
            (self.archived or not archived) and (starred or not self.starred) and (self.tag is None or self.tag in tags)
        )

    @property
    def address(self) -> dict[str, str | None]:
        """The parameters of an address that ask for it, None for those that it does not need."""
        return {
            "tag": self.tag,
            "starred": "1" if self.starred else None,
            "archived": "1" if self.archived else None,
        }


UNARCHIVED = Selection()
"""What lists show by default."""


def from_address(given: Mapping[str, str]) -> Selection:
    """The selection that a page's address asks for. A text that is not a valid tag matches no row."""
    tag = given.get("tag", "").strip().lower()
    return Selection(tag or None, *(given.get(name) in ("1", "true") for name in ("starred", "archived")))


def known_tags(session: Session, table: type[TagRow]) -> list[str]:
    """The tags in use, the most frequent ones, in alphabetical order."""
    frequent = select(table.tag).group_by(table.tag).order_by(func.count().desc(), table.tag).limit(SUGGESTED)
    return sorted(session.scalars(frequent))


def any_archived(session: Session, table: type[Annotatable]) -> bool:
    """Whether any row is archived; an empty list then says so."""
    mapped: Any = table
    return session.scalar(select(mapped.id).where(table.archived.is_(True)).limit(1)) is not None
