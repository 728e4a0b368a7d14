"""Keyset pagination: a page ends with a cursor where the next one begins, so rows added in between shift nothing."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import Field

from app.core.db.storable import InputText
from app.core.errors import BadInputError
from app.web.http.schemas import RequestModel

LARGEST_PAGE = 200
_NUMBER = re.compile("[0-9]{1,9}")  # more digits would not fit into the databases' integers
T = TypeVar("T")


class PageQuery(RequestModel):
    """The query of every list."""

    limit: int = Field(50, ge=1, le=LARGEST_PAGE, description="at most this many rows per page")
    cursor: InputText | None = Field(
        None, max_length=500, description="`next` of the previous page; default: first page"
    )

    def parse_id(self) -> uuid.UUID | None:
        """The cursor of a list ordered by id. Raises BadInputError for another value than a `next`."""
        try:
            return uuid.UUID(self.cursor) if self.cursor else None
        except ValueError:
            raise build_cursor_error(self.cursor) from None

    def parse_numbers(self, count: int) -> tuple[int, ...] | None:
        """The cursor of a list ordered by so many numbers, joined by dots.

        Raises BadInputError for another value than a `next`.
        """
        if not self.cursor:
            return None
        parts = self.cursor.split(".")
        if len(parts) != count or not all(_NUMBER.fullmatch(part) for part in parts):
            raise build_cursor_error(self.cursor)
        return tuple(map(int, parts))


def build_cursor_error(cursor: str | None) -> BadInputError:
    """The error for a cursor that is not the `next` of a page."""
    return BadInputError(f"cursor is {(cursor or '')[:60]!r}: give the `next` of a page", "cursor")


def split_rows(rows: Sequence[T], query: PageQuery, key: Callable[[T], str]) -> tuple[Sequence[T], str | None]:
    """(rows of the page, `next`) from rows read with `limit + 1`: the extra row tells that another page follows."""
    page = rows[: query.limit]
    return page, key(page[-1]) if len(rows) > query.limit else None


def split_list(rows: Sequence[T], query: PageQuery, key: Callable[[T], str]) -> tuple[Sequence[T], str | None]:
    """(rows of the page, `next`) from a complete list, for an order that no database column has.

    Raises BadInputError for a cursor that is the key of no row.
    """
    start = 0
    if query.cursor:
        start = next((i + 1 for i, row in enumerate(rows) if key(row) == query.cursor), -1)
        if start < 0:
            raise build_cursor_error(query.cursor)
    return split_rows(rows[start:], query, key)
