"""A search: the newest samples that hold a text. Nothing is indexed: a page reads a bounded number of samples."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import Row, or_, select
from sqlalchemy.orm import Session

from app.core.states import LISTED_RUN_KINDS
from app.datasets.models import Dataset, Task
from app.runs.figures import is_finished
from app.runs.models import Run, RunTask
from app.samples.models import Sample
from app.search.documents import ExcerptDocument, HitDocument, SearchPage
from app.search.schemas import SearchQuery
from evaluation.verdicts import failure_of

LOOKED_AT = 20_000  # samples whose texts one page reads
AROUND = 90  # characters of a line shown on each side of a match
SEARCHED = {
    "program": "program",
    "raw": "raw text",
    "verdict_detail": "error",
    "failing_assert": "failed assertion",
}
"""The columns of a sample that are searched, with what pages call them."""


def search(session: Session, query: SearchQuery) -> SearchPage:
    """The newest samples of listed runs that hold the text. Raises BadInputError for a cursor that is not a `next`."""
    before = query.id()
    newest = select(Sample.id).join(Run, Run.id == Sample.run_id).where(Run.kind.in_(LISTED_RUN_KINDS))
    if query.run is not None:
        newest = newest.where(Run.id == query.run)
    if before is not None:
        newest = newest.where(Sample.id < before)
    newest = newest.order_by(Sample.id.desc())
    looked_at = newest.limit(LOOKED_AT).subquery()
    rows = session.execute(
        select(
            Sample.id,
            Sample.index.label("number"),
            Sample.verdict,
            Sample.finish_reason,
            *(getattr(Sample, name) for name in SEARCHED),
            Run.id.label("run_id"),
            Run.name.label("run"),
            Run.target,
            Dataset.name.label("dataset"),
            Task.task_id,
        )
        .join(looked_at, looked_at.c.id == Sample.id)
        .join(RunTask, RunTask.id == Sample.run_task_id)
        .join(Task, Task.id == RunTask.task_pk)
        .join(Run, Run.id == Sample.run_id)
        .join(Dataset, Dataset.id == Run.dataset_id)
        .where(or_(*(getattr(Sample, name).icontains(query.q, autoescape=True) for name in SEARCHED)))
        .order_by(Sample.id.desc())
        .limit(query.limit + 1)
    ).all()
    page = rows[: query.limit]
    is_full = len(rows) > query.limit
    following = page[-1].id if is_full else session.scalar(newest.offset(LOOKED_AT - 1).limit(1))
    return SearchPage(
        samples=[_describe_hit(row, query.q) for row in page], next=None if following is None else str(following)
    )


def _describe_hit(row: Row[*tuple[Any, ...]], text: str) -> HitDocument:
    detail = row.verdict_detail
    failure = failure_of(row.verdict, detail or "", is_finished(row)) if row.verdict else None
    return HitDocument.of(row, index=row.number, failure=failure, message=detail, excerpts=_find_excerpts(row, text))


def _find_excerpts(row: Row[*tuple[Any, ...]], text: str) -> list[ExcerptDocument]:
    """The line around the first match; nothing where the database found it by a letter's other case alone."""
    pattern = re.compile(re.escape(text), re.IGNORECASE)
    for name in SEARCHED:
        whole = getattr(row, name) or ""
        if match := pattern.search(whole):
            start, end = match.span()
            line_start = whole.rfind("\n", 0, start) + 1
            line_end = whole.find("\n", end)
            line_end = len(whole) if line_end < 0 else line_end
            first, last = max(line_start, start - AROUND), min(line_end, end + AROUND)
            return [ExcerptDocument(where=name, text=whole[first:last], marks=[(start - first, end - first)])]
    return []
