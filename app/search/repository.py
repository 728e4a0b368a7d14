"""Queries of a search: tasks from the index, newest first, and their samples. Every function takes an open session."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Row, Select, cast, column, literal, select, table, text
from sqlalchemy.dialects.postgresql import TSQUERY
from sqlalchemy.orm import Session

from app.core.db.migrate import SEARCH_INDEX
from app.core.states import LISTED_RUN_KINDS
from app.datasets.models import Dataset, Task
from app.runs.index_models import TaskWords
from app.runs.indexing import TEXTS, searched_part
from app.runs.models import Run, RunTask
from app.samples.models import Sample

NEWEST = 3000  # tasks that are looked at one by one before the index is asked
FEW_RUNS = 16  # so few are read by their runs
_ROW = (TaskWords.id, TaskWords.run_task_id, TaskWords.run_id)
_FTS5 = table(SEARCH_INDEX, column("rowid"), column(SEARCH_INDEX))
_SAMPLE = (Sample.index.label("number"), Sample.verdict, Sample.finish_reason, Sample.finished_s)


class Candidate(NamedTuple):
    """A task that may have samples which fit."""

    row: int
    run_task_id: uuid.UUID


def candidates(
    session: Session,
    words: Sequence[str],
    runs: Select[uuid.UUID] | None,
    *,
    limit: int,
    up_to: int | None = None,
) -> list[Candidate]:
    """Tasks that have all these words, newest first; with `up_to`, from that row on to older ones.

    They are sorted by their row and never by rank: a common word is in nearly every task, and to rank them all would
    take seconds.
    """
    # OFFSET keeps order and filters out of the inner query: else PostgreSQL may walk through all tasks in their order.
    if session.get_bind().dialect.name == "sqlite" and words:
        return _of_fts5(session, words, runs, limit, up_to)
    rows = select(*_ROW) if up_to is None else select(*_ROW).where(TaskWords.id <= up_to)
    few = list(session.scalars(runs.limit(FEW_RUNS + 1))) if runs is not None else []
    if runs is not None and len(few) <= FEW_RUNS:
        of_these = rows.where(TaskWords.run_id.in_(few), *_with(words))
        return _newest(session, of_these.offset(0), None, limit)
    if not words:
        return _newest(session, rows, runs, limit)
    # A common word fills the page from the newest tasks. To read all tasks with it would read most of the table.
    newest = rows.add_columns(TaskWords.words).order_by(TaskWords.id.desc()).limit(NEWEST).subquery()
    found = _newest(
        session, select(*(newest.c[column.key] for column in _ROW)).where(*_with(words, newest)), runs, limit
    )
    if len(found) == limit:
        return found
    with _by_index(session):
        older = select(*_ROW).where(*_with(words)).offset(0).subquery()
        every = select(*(older.c[column.key] for column in _ROW))
        return _newest(session, every if up_to is None else every.where(older.c.id <= up_to), runs, limit)


def samples(session: Session, run_task_ids: Sequence[uuid.UUID], verdict: str | None) -> list[Row[*tuple[Any, ...]]]:
    """The samples of these tasks with what a search shows of their runs, by index.

    Samples of runs that lists hide are left out, whatever the index holds.
    """
    query = (
        select(
            Sample.run_task_id,
            *_SAMPLE,
            *map(searched_part, TEXTS),
            Task.task_id,
            Run.id.label("run_id"),
            Run.name.label("run_name"),
            Run.target,
            Dataset.name.label("dataset"),
        )
        .join(RunTask, RunTask.id == Sample.run_task_id)
        .join(Task, Task.id == RunTask.task_pk)
        .join(Run, Run.id == RunTask.run_id)
        .join(Dataset, Dataset.id == Run.dataset_id)
        .where(Sample.run_task_id.in_(run_task_ids), Run.kind.in_(LISTED_RUN_KINDS))
        .order_by(Sample.index)
    )
    if verdict:
        query = query.where(Sample.verdict == verdict)
    return list(session.execute(query))


def targets(session: Session) -> list[str]:
    """The models of the runs that lists show."""
    query = select(Run.target).where(Run.kind.in_(LISTED_RUN_KINDS)).distinct().order_by(Run.target)
    return list(session.scalars(query))


def _with(words: Sequence[str], of: Any = TaskWords) -> list[ColumnElement[bool]]:
    """The condition for rows that have all these words, on PostgreSQL."""
    if not words:
        return []
    column = of.words if of is TaskWords else of.c.words
    return [column.op("@@")(cast(literal(" & ".join(f"'{word}'" for word in words)), TSQUERY))]


def _newest(
    session: Session, query: Select[int, uuid.UUID, uuid.UUID], runs: Select[uuid.UUID] | None, limit: int
) -> list[Candidate]:
    found = query.subquery()
    newest = select(found.c.id, found.c.run_task_id).order_by(found.c.id.desc()).limit(limit)
    if runs is not None:
        newest = newest.where(found.c.run_id.in_(runs))
    return [Candidate(*row) for row in session.execute(newest)]


def _of_fts5(
    session: Session, words: Sequence[str], runs: Select[uuid.UUID] | None, limit: int, up_to: int | None
) -> list[Candidate]:
    """FTS5 walks its rows from the newest on and stops at the limit."""
    phrase = " ".join(f'"{word}"' for word in words)
    query = (
        select(TaskWords.id, TaskWords.run_task_id)
        .select_from(_FTS5.join(TaskWords, TaskWords.id == _FTS5.c.rowid))
        .where(_FTS5.c[SEARCH_INDEX].op("MATCH")(phrase))
        .order_by(_FTS5.c.rowid.desc())
        .limit(limit)
    )
    if up_to is not None:
        query = query.where(_FTS5.c.rowid <= up_to)
    if runs is not None:
        query = query.where(TaskWords.run_id.in_(runs))
    return [Candidate(*row) for row in session.execute(query)]


@contextmanager
def _by_index(session: Session) -> Iterator[None]:
    """PostgreSQL must not read the whole table, which it may take to be cheaper where its statistics are old."""
    session.execute(text("SET enable_seqscan = off"))
    try:
        yield
    except BaseException:
        session.invalidate()  # the setting must not stay with the connection
        raise
    session.execute(text("RESET enable_seqscan"))
