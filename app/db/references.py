"""How people name a stored row: by its id, the beginning of its id, or its name."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.types import Named
from app.errors import BadInputError, NotFoundError
from decoding.suggest import advice

SHORTEST_PREFIX = 4  # of an id, in hexadecimal digits
SUGGESTED_FROM = 2000  # names of the newest rows that a mistyped one is compared with


def find_id(session: Session, table: type[Named], reference: str, what: str, listing: str) -> uuid.UUID:
    """The id that is meant: a whole id is not looked up, of a name it is the newest.

    `what` is the word for a row, `listing` the command that lists them. Raises NotFoundError, or BadInputError for the
    beginning of several ids.
    """
    try:
        return uuid.UUID(reference)
    except ValueError:
        pass
    newest = select(table.id).where(table.name == reference).order_by(table.id.desc()).limit(1)
    ids = session.scalars(newest).all() or _ids_beginning_with(session, table, reference)
    if not ids:
        names = session.scalars(select(table.name).order_by(table.id.desc()).limit(SUGGESTED_FROM))
        use = f"`{listing}` shows those there are"
        raise NotFoundError(f"there is no {what} {reference!r}: {advice(reference, names, use)}")
    if len(ids) > 1:
        raise BadInputError(f"{reference!r} is the beginning of {len(ids)} ids: give more of it", what)
    return ids[0]


def _ids_beginning_with(session: Session, table: type[Named], prefix: str) -> Sequence[uuid.UUID]:
    """The ids that begin with `prefix`, as an index range; () for one that is too short or begins none."""
    digits = prefix.lower().replace("-", "")
    try:
        first, last = uuid.UUID(digits.ljust(32, "0")), uuid.UUID(digits.ljust(32, "f"))
    except ValueError:
        return ()
    if len(digits) < SHORTEST_PREFIX or not str(first).startswith(prefix.lower()):
        return ()
    return session.scalars(select(table.id).where(table.id.between(first, last))).all()
