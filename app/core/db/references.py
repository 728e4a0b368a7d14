"""How people name a stored row: by its id, the beginning of its id, or its name. And which rows refer to one."""

from __future__ import annotations

import uuid

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session, object_mapper

from app.core.db.types import Base, Named
from app.core.errors import BadInputError, NotFoundError
from decoding.suggest import build_advice

SHORTEST_PREFIX = 4  # of an id, in hexadecimal digits
SUGGESTED_FROM = 2000  # names of the newest rows that a mistyped one is compared with


def find_id(
    session: Session, table: type[Named], reference: str, what: str, listing: str, *conditions: ColumnElement[bool]
) -> uuid.UUID:
    """The id of a reference: a whole id is not looked up, a name gives its newest row.

    `what` is the word for a row, `listing` the command that lists the rows, and `conditions` restrict which rows are
    searched. Raises NotFoundError, or BadInputError for the beginning of several ids.
    """
    try:
        return uuid.UUID(reference)
    except ValueError:
        pass
    newest = select(table.id).where(table.name == reference, *conditions).order_by(table.id.desc()).limit(1)
    ids = session.scalars(newest).all()
    if not ids and (begun := find_id_range(reference)):
        ids = session.scalars(select(table.id).where(table.id.between(*begun), *conditions)).all()
    if not ids:
        names = session.scalars(select(table.name).where(*conditions).order_by(table.id.desc()).limit(SUGGESTED_FROM))
        advised = build_advice(reference, names, f"`{listing}` shows all")
        raise NotFoundError(f"there is no {what} {reference!r}: {advised}")
    if len(ids) > 1:
        raise BadInputError(f"{reference!r} is the beginning of {len(ids)} ids: give more of it", what)
    return ids[0]


def find_id_range(prefix: str) -> tuple[uuid.UUID, uuid.UUID] | None:
    """The first and the last id that begin with `prefix`, with dashes or without; None for one that is too short or
    begins no id."""
    digits = prefix.lower().replace("-", "")
    try:
        first, last = uuid.UUID(digits.ljust(32, "0")), uuid.UUID(digits.ljust(32, "f"))
    except ValueError:
        return None
    begins = any(written.startswith(prefix.lower()) for written in (str(first), first.hex))
    return (first, last) if begins and len(digits) >= SHORTEST_PREFIX else None


def count_references(session: Session, row: Named) -> dict[str, int]:
    """How many rows keep this one from being deleted, by table; empty where none does. Rows that the database deletes
    along with it (ON DELETE CASCADE) are not counted."""
    target, counts = object_mapper(row).local_table, {}
    for table in Base.metadata.sorted_tables:
        for key in table.foreign_keys:
            if key.column.table is target and key.ondelete is None:
                count = session.scalar(select(func.count()).where(key.parent == row.id))
                if count:
                    counts[table.name] = count
    return counts
