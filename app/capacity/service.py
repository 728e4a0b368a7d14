"""Load tests are stored whole, once they have ended, and deleted whole."""

from __future__ import annotations

import uuid

from app.capacity.models import LoadTest
from app.capacity.repository import get_load_test
from app.capacity.schemas import LoadTestSpec
from app.context import Context


def store(ctx: Context, spec: LoadTestSpec) -> uuid.UUID:
    """Stores the load test. Returns its id."""
    row = LoadTest(**spec.model_dump(mode="json"))
    with ctx.database.session() as session:
        session.add(row)
        session.flush()
        return row.id


def delete_load_test(ctx: Context, load_test_id: uuid.UUID) -> None:
    """Removes a stored load test; nothing else refers to it. Raises NotFoundError."""
    with ctx.database.session() as session:
        session.delete(get_load_test(session, load_test_id))
