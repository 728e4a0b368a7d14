"""Queries about datasets, and which fields of their files decide."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, selectinload

from app.core.errors import NotFoundError
from app.datasets.models import Dataset, DatasetCheck, Task
from app.web.ui.units import format_count


@dataclass
class FieldUse:
    """How many tasks each field (or group of fields) judges, and in how many it is present but unused."""

    judged_by: Counter[str] = field(default_factory=Counter)
    not_used: Counter[str] = field(default_factory=Counter)

    def describe(self, n_tasks: int) -> str:
        """Both in one line, with the number of tasks where it is not all of them."""
        parts = [f"judged by {_list_counts(self.judged_by, n_tasks)}"]
        if self.not_used:
            parts.append(f"fields not used: {_list_counts(self.not_used, n_tasks)}")
        return "; ".join(parts)


def summarize_fields(tasks: Iterable[tuple[Mapping[str, Any] | None, object]]) -> FieldUse:
    """The use of fields over tasks, each given by its source and by its signature, which a task with cases has."""
    use = FieldUse()
    for source, signature in tasks:
        facts = source or {}
        judged_by = facts.get("judged_by") or [facts.get("judge") or ("test" if signature is None else "cases")]
        use.judged_by[", ".join(map(str, judged_by))] += 1
        use.not_used.update(map(str, facts.get("not_used") or ()))
    return use


def _list_counts(counts: Counter[str], n_tasks: int) -> str:
    return ", ".join(
        name if number == n_tasks else f"{name} ({format_count(number, 'task')})"
        for name, number in counts.most_common()
    )


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
