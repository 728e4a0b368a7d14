"""Deletes a dataset for good: its tasks, its checks, and the project's files that no other dataset needs."""

from __future__ import annotations

import uuid

from sqlalchemy import ColumnElement, delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.core.context import Context
from app.core.db.archives import ProjectArchive
from app.core.db.references import count_references
from app.core.errors import ConflictError
from app.datasets.models import Task
from app.datasets.repository import get_dataset
from app.web.ui.units import format_count


def delete_dataset(ctx: Context, dataset_id: uuid.UUID) -> None:
    """Removes a dataset that no run and no study uses. A built-in one is stored again when it is next used.

    Raises NotFoundError, and ConflictError that says what refers to the dataset.
    """
    try:
        with ctx.database.session() as session:
            dataset = get_dataset(session, dataset_id)
            if references := count_references(session, dataset):
                raise ConflictError(_explain(dataset.name, references))
            archives = _find_archives(session, Task.dataset_id == dataset_id)
            session.delete(dataset)
            session.flush()
            unused = archives - _find_archives(session, Task.project_tests.is_not(None))
            session.execute(delete(ProjectArchive).where(ProjectArchive.sha256.in_(unused)))
    except IntegrityError:  # a run over it was stored in the meantime
        raise ConflictError("a run over the dataset was just stored: delete it first") from None


def _explain(name: str, references: dict[str, int]) -> str:
    singular = {"runs": "run", "studies": "study"}
    used = " and ".join(format_count(count, singular.get(table, table)) for table, count in references.items())
    return f"{name} is used by {used}: delete {'it' if sum(references.values()) == 1 else 'them'} first"


def _find_archives(session: Session, condition: ColumnElement[bool]) -> set[str]:
    """The archives that the tasks under this condition name."""
    rows = session.scalars(select(Task.project_tests).where(condition, Task.project_tests.is_not(None)))
    return {row[field] for row in rows if row for field in ("project", "installed")}
