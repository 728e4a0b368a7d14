"""Queries about load tests. Every function takes an open session and returns loaded rows."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.capacity.models import LoadTest
from app.errors import NotFoundError


def list_load_tests(session: Session, *, limit: int = 50, before: uuid.UUID | None = None) -> Sequence[LoadTest]:
    """Load tests, newest first. The last id of a page is `before` of the next."""
    query = select(LoadTest) if before is None else select(LoadTest).where(LoadTest.id < before)
    return session.scalars(query.order_by(LoadTest.id.desc()).limit(limit)).all()


def get_load_test(session: Session, load_test_id: uuid.UUID) -> LoadTest:
    """The load test. Raises NotFoundError."""
    found = session.get(LoadTest, load_test_id)
    if found is None:
        raise NotFoundError(f"there is no load test {load_test_id}: the page Capacity lists the existing ones")
    return found
