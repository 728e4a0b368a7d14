"""Load tests are stored whole, once they have ended."""

from __future__ import annotations

import uuid

from app.capacity.models import LoadTest
from app.capacity.schemas import LoadTestSpec
from app.context import Context


def store(ctx: Context, spec: LoadTestSpec) -> uuid.UUID:
    """Stores the load test. Returns its id."""
    row = LoadTest(**spec.model_dump(mode="json"))
    with ctx.database.session() as session:
        session.add(row)
        session.flush()
        return row.id
