"""The columns of annotations on a row, and the tables of its tags."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import String, Text, false
from sqlalchemy.orm import Mapped, declared_attr, mapped_column, relationship

from app.annotations.tags import LONGEST_TAG


class TagRow:
    """Mixin of the table of tags of X, which is called XTag: one tag of one row."""

    tag: Mapped[str] = mapped_column(String(LONGEST_TAG), primary_key=True, index=True, sort_order=1)


class Annotatable:
    """Mixin of rows that people annotate: everybody on the service sees and changes the same annotations.

    `starred` marks a row worth finding again. `archived` keeps the row out of lists, the leaderboard and the answer
    of the first page; its address stays.
    """

    note: Mapped[str] = mapped_column(Text, default="", server_default="")
    starred: Mapped[bool] = mapped_column(default=False, server_default=false())
    archived: Mapped[bool] = mapped_column(default=False, server_default=false())

    @declared_attr
    def tag_rows(cls) -> Mapped[list[Any]]:  # noqa: N805
        """The tags as rows of their own, so that two people who add one each do not undo each other's change."""
        table = f"{cls.__name__}Tag"  # type: ignore[attr-defined]
        return relationship(table, order_by=f"{table}.tag", cascade="all, delete-orphan", passive_deletes=True)

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags in alphabetical order."""
        return tuple(sorted(row.tag for row in self.tag_rows))

    @tags.setter
    def tags(self, tags: Iterable[str]) -> None:
        table: Any = type(self).tag_rows
        here = {row.tag: row for row in self.tag_rows}
        self.tag_rows = [here.get(tag) or table.property.mapper.class_(tag=tag) for tag in sorted(set(tags))]
