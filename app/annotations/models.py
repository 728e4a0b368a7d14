"""The columns of annotations on a row."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Text, false, select
from sqlalchemy.orm import Mapped, Session, mapped_column


class Annotatable:
    """Mixin of rows that people annotate: everybody on the service sees and changes the same annotations.

    `archived` keeps the row out of lists, the leaderboard and the answer of the first page; its address stays.
    """

    note: Mapped[str] = mapped_column(Text, default="", server_default="")
    archived: Mapped[bool] = mapped_column(default=False, server_default=false())

    @classmethod
    def has_archived(cls, session: Session) -> bool:
        """Whether any row is archived; an empty list then says so."""
        table: Any = cls
        return session.scalar(select(table.id).where(cls.archived.is_(True)).limit(1)) is not None
