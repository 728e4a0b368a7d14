"""Keyset pagination: a page ends with a cursor that begins the next one, so rows added meanwhile move nothing."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import Field

from app.errors import BadInput
from app.http.schemas import RequestModel, Text

LARGEST_PAGE = 200
LONGEST_NUMBER = 10  # digits; more would not fit into the databases' integers
T = TypeVar("T")


class PageQuery(RequestModel):
    """What every list takes."""

    limit: int = Field(50, ge=1, le=LARGEST_PAGE, description="rows of a page at most")
    cursor: Text | None = Field(None, max_length=500, description="`next` of the page before; none: the first page")

    def id(self) -> uuid.UUID | None:
        """The cursor of a list in the order of ids. Raises BadInput for one that no page gave."""
        try:
            return uuid.UUID(self.cursor) if self.cursor else None
        except ValueError:
            raise bad_cursor(self.cursor) from None

    def number(self) -> int | None:
        """The cursor of a list in the order of positions. Raises BadInput for one that no page gave."""
        if not self.cursor:
            return None
        if not (self.cursor.isascii() and self.cursor.isdecimal() and len(self.cursor) < LONGEST_NUMBER):
            raise bad_cursor(self.cursor)
        return int(self.cursor)


def bad_cursor(cursor: str | None) -> BadInput:
    """For a cursor that no page gave."""
    return BadInput(f"cursor is {(cursor or '')[:60]!r}: give the `next` of a page", "cursor")


def page_from_rows(rows: Sequence[T], query: PageQuery, key: Callable[[T], str]) -> tuple[Sequence[T], str | None]:
    """(rows of the page, `next`) from rows read with `limit + 1`: the one too many says that there are more."""
    page = rows[: query.limit]
    return page, key(page[-1]) if len(rows) > query.limit else None


def page_from_list(rows: Sequence[T], query: PageQuery, key: Callable[[T], str]) -> tuple[Sequence[T], str | None]:
    """(rows of the page, `next`) of a whole list whose order is not that of a column. Raises BadInput."""
    start = 0
    if query.cursor:
        start = next((i + 1 for i, row in enumerate(rows) if key(row) == query.cursor), -1)
        if start < 0:
            raise bad_cursor(query.cursor)
    return page_from_rows(rows[start:], query, key)
