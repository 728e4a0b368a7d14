"""Changes the annotations of a row, in the transaction of the caller."""

from __future__ import annotations

import uuid

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.annotations.models import Annotatable
from app.annotations.schemas import Changes
from app.annotations.tags import MOST_TAGS
from app.core.db.types import Identified
from app.core.errors import BadInputError


def lock(session: Session, table: type[Identified], row_id: uuid.UUID) -> None:
    """Lets other changes of this row wait until the transaction ends; the tags must be read after this.

    SQLite has one writer at a time anyway.
    """
    session.execute(select(table.id).where(table.id == row_id).with_for_update())


def apply(row: Annotatable, changes: Changes) -> None:
    """Changes the row. Raises BadInputError for more tags than a row may have."""
    if changes.tags is not None:
        row.tags = changes.tags
    elif changes.add_tags or changes.remove_tags:
        wanted = {*row.tags, *changes.add_tags} - {*changes.remove_tags}
        if len(wanted) > MOST_TAGS:
            raise BadInputError(f"tags would be {len(wanted)}: {MOST_TAGS} are the most, remove some first", "tags")
        row.tags = wanted
    if changes.note is not None:
        row.note = changes.note
    if changes.starred is not None:
        row.starred = changes.starred
    if changes.archived is not None:
        row.archived = changes.archived
