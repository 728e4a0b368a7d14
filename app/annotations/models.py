"""The columns of annotations on a row."""

from __future__ import annotations

from sqlalchemy import Text, false
from sqlalchemy.orm import Mapped, mapped_column


class Annotatable:
    """Mixin of rows that people annotate: everybody on the service sees and changes the same annotations.

    `archived` keeps the row out of lists, the leaderboard and the answer of the first page; its address stays.
    """

    note: Mapped[str] = mapped_column(Text, default="", server_default="")
    archived: Mapped[bool] = mapped_column(default=False, server_default=false())
