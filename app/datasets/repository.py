"""Queries about datasets."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session, selectinload

from app.core.errors import NotFoundError
from app.datasets.field_use import FieldUse, summarize_fields
from app.datasets.models import Dataset, DatasetCheck, Task


def list_datasets(session: Session) -> Sequence[Dataset]:
    """Datasets by name, newest content first."""
    return session.scalars(select(Dataset).order_by(Dataset.name, Dataset.id.desc())).all()


def load_datasets_page(session: Session, *, limit: int, before: uuid.UUID | None = None) -> Sequence[Dataset]:
    """Stored datasets, newest first; `before` is the last id of the previous page."""
    query = select(Dataset)
    if before:
        query = query.where(Dataset.id < before)
    return session.scalars(query.order_by(Dataset.id.desc()).limit(limit)).all()


def get_dataset(session: Session, dataset_id: uuid.UUID) -> Dataset:
    """The dataset; its tasks load on first use. Raises NotFoundError."""
    found = session.get(Dataset, dataset_id)
    if found is None:
        raise NotFoundError(f"there is no dataset {dataset_id}: /datasets and /api/v1/datasets list all")
    return found


def load_tasks_page(session: Session, dataset_id: uuid.UUID, *, limit: int, after: int | None = None) -> Sequence[Task]:
    """Tasks in their order, after the position `after`."""
    query = select(Task).where(Task.dataset_id == dataset_id)
    if after is not None:
        query = query.where(Task.position > after)
    return session.scalars(query.order_by(Task.position).limit(limit)).all()


def find_field_use(session: Session, dataset_id: uuid.UUID) -> FieldUse:
    """Which fields of its file judge the tasks of a dataset, and which play no part."""
    rows = session.execute(select(Task.source, Task.signature).where(Task.dataset_id == dataset_id))
    return summarize_fields((source, signature) for source, signature in rows)


def find_newest(session: Session, name: str) -> Dataset | None:
    """The newest dataset of that name with its tasks, or None."""
    return session.scalar(
        select(Dataset)
        .where(Dataset.name == name)
        .options(selectinload(Dataset.tasks))
        .order_by(Dataset.id.desc())
        .limit(1)
    )


def find_by_content(session: Session, name: str, sha256: str) -> Dataset | None:
    """The dataset of that name and content with its tasks, or None."""
    return session.scalar(
        select(Dataset).where(Dataset.name == name, Dataset.sha256 == sha256).options(selectinload(Dataset.tasks))
    )


def load_checks(session: Session, dataset_id: uuid.UUID) -> Sequence[DatasetCheck]:
    """The stored checks of the canonical solutions, one for each kind of sandbox; empty before the first."""
    query = select(DatasetCheck).where(DatasetCheck.dataset_id == dataset_id)
    return session.scalars(query.order_by(DatasetCheck.id)).all()


def find_check(session: Session, dataset_id: uuid.UUID, sandbox: str) -> DatasetCheck | None:
    """The stored check of the canonical solutions in that kind of sandbox, or None."""
    return session.scalar(
        select(DatasetCheck).where(DatasetCheck.dataset_id == dataset_id, DatasetCheck.sandbox == sandbox)
    )
