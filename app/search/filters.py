"""The filters of a search: as conditions on runs, as labels in the index, and as a check of one sample."""

from __future__ import annotations

import uuid

from sqlalchemy import ColumnElement, Select, or_, select

from app.core.db.references import ids_beginning_with
from app.core.states import LISTED_RUN_KINDS
from app.datasets.models import Dataset
from app.runs import indexing
from app.runs.models import Run
from app.search.schemas import SearchQuery
from evaluation.failures import failure_of
from evaluation.verdicts import Failure, Status


def runs(query: SearchQuery) -> Select[uuid.UUID] | None:
    """The ids of the runs that fulfil the filters, None if every run does. A filter on runs is one condition here."""
    conditions: list[ColumnElement[bool]] = []
    if query.run:
        ids = ids_beginning_with(query.run)
        by_id = [Run.id.between(*ids)] if ids else []
        conditions.append(or_(Run.name.icontains(query.run, autoescape=True), *by_id))
    if query.target:
        conditions.append(Run.target == query.target)
    if query.dataset:
        conditions.append(Run.dataset_id.in_(select(Dataset.id).where(Dataset.name == query.dataset)))
    if query.tag:
        conditions.append(Run.tag_rows.any(tag=query.tag.lower()))
    return select(Run.id).where(Run.kind.in_(LISTED_RUN_KINDS), *conditions) if conditions else None


def labels(query: SearchQuery) -> list[str]:
    """What the index knows of a task with a sample that fulfils the filters."""
    found = []
    if query.verdict:
        found.append(indexing.with_verdict(query.verdict))
    if query.failure:
        found.append(_label_of(query.failure))
    if query.task_id:
        found.append(indexing.with_task_id(query.task_id))
    return found


def _label_of(failure: Failure) -> str:
    """The label of the one verdict that such a failure has; of a sample that did not finish it may be any."""
    if failure == "not_finished":
        return indexing.LATE
    for status in Status:
        # A name that is not known is told from other exceptions by the beginning of the detail.
        if failure in (failure_of(status, "", finished=True), failure_of(status, "NameError", finished=True)):
            return indexing.with_verdict(status)
    raise ValueError(f"no verdict is of the class {failure!r}")
