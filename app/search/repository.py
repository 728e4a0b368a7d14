"""Queries of a search: tasks from the index, newest first, and their samples. Every function takes an open session."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from sqlalchemy import Row, Select, cast, column, literal, select, table, text
from sqlalchemy.dialects.postgresql import TSQUERY
from sqlalchemy.orm import Session

from app.datasets.models import Dataset, Task
from app.db.migrate import SEARCH_INDEX
from app.runs.index_models import TaskWords
from app.runs.indexing import TEXTS
from app.runs.models import Run, RunTask
from app.samples.models import Sample
from app.states import LISTED_RUN_KINDS

_FTS5 = table(SEARCH_INDEX, column("rowid"), column(SEARCH_INDEX))
_SAMPLE = (Sample.index.label("number"), Sample.verdict, Sample.finish_reason, Sample.finished_s, *TEXTS)


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
    if not words:
        query = select(TaskWords.id, TaskWords.run_task_id, TaskWords.run_id)
        found = query.where(TaskWords.id <= up_to) if up_to is not None else query
        return _newest(session, found, runs, limit)
    if session.get_bind().dialect.name == "sqlite":
        return _of_fts5(session, words, runs, limit, up_to)
    tsquery = cast(literal(" & ".join(f"'{word}'" for word in words)), TSQUERY)
    found = select(TaskWords.id, TaskWords.run_task_id, TaskWords.run_id).where(TaskWords.words.op("@@")(tsquery))
    if up_to is not None:
        found = found.where(TaskWords.id + 0 <= up_to)
    with _by_index(session):
        # OFFSET keeps the filters out of the inner query, which then has the GIN index alone to choose.
        return _newest(session, found.offset(0), runs, limit)


def samples(session: Session, run_task_ids: Sequence[uuid.UUID], verdict: str | None) -> list[Row[*tuple[Any, ...]]]:
    """The samples of these tasks with what a search shows of their runs, by index.

    Those of runs that lists hide are left out, whatever the index holds.
    """
    query = (
        select(
            Sample.run_task_id,
            *_SAMPLE,
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
    """PostgreSQL must not read the table instead of the index.

    For a common word it takes the whole table to be cheaper, because its estimate leaves out that each tsvector is
    stored out of line and would be read as well.
    """
    session.execute(text("SET enable_seqscan = off"))
    try:
        yield
    except BaseException:
        session.invalidate()  # the setting must not stay with the connection
        raise
    session.execute(text("RESET enable_seqscan"))
