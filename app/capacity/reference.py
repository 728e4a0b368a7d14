"""The example load tests that come with an installation: the report of `bassline bench load --json`."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from functools import cache
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.capacity.models import LoadTest
from app.capacity.schemas import LoadTestSpec
from app.context import Context
from app.errors import NotFoundError
from app.studies.loading import REFERENCE_FOLDERS

FILE = "capacity.json"


def reference_to_load(ctx: Context) -> bool:
    """Whether this installation has an example load test that is not in the database."""
    with ctx.database.read() as session:
        return any(_stored(session, row) is None for row in _rows())


def load_reference(ctx: Context) -> list[uuid.UUID]:
    """Stores the example load tests, marked as measured elsewhere; one that is here already stays as it is.

    Returns their ids. Raises NotFoundError where none comes with this installation.
    """
    rows = _rows()
    if not rows:
        raise NotFoundError("there is no example load test in this installation: make one with `bassline bench load`")
    with ctx.database.session() as session:
        ids = []
        for row in rows:
            found = _stored(session, row)
            if found is None:
                session.add(row)
                session.flush()
                found = row.id
            ids.append(found)
        return ids


def _stored(session: Session, row: LoadTest) -> uuid.UUID | None:
    """The id of the same load test in the database."""
    same = (LoadTest.name == row.name, LoadTest.created_at == row.created_at)
    return session.scalar(select(LoadTest.id).where(*same).limit(1))


def _rows() -> list[LoadTest]:
    """The load tests of the file as new rows."""
    report = _report()
    rows = []
    for body in report.get("load_tests", ()):
        spec = LoadTestSpec.model_validate(body)
        measured = spec.settings.model_copy(update={"measured_elsewhere": True})
        content = spec.model_copy(update={"settings": measured}).model_dump(mode="json")
        rows.append(LoadTest(**content, created_at=dt.datetime.fromisoformat(report["measured_at"])))
    return rows


@cache
def _report() -> dict[str, Any]:
    """The content of the file, which does not change while the process lives; {} where there is none."""
    for folder in REFERENCE_FOLDERS:
        if (file := folder / FILE).exists():
            found: dict[str, Any] = json.loads(file.read_text())
            return found
    return {}
