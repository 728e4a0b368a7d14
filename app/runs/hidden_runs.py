"""Runs whose samples come from a file: stored in short transactions, so that others write meanwhile.

Until the last of them a run is hidden. It is removed if storing fails, and by `remove_abandoned` if the process ends.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import delete, insert, select, update

from app.db.database import Database, short_transaction, updated_any
from app.db.types import utcnow
from app.runs import indexing
from app.runs.models import IMPORT_OPEN, Run, RunTask
from app.samples.models import Sample
from app.states import RunKind, RunState

T = TypeVar("T")
BATCH = 500  # rows of a transaction
SILENT = dt.timedelta(minutes=10)  # far longer than a batch takes: the process of an import has ended


def store_run(database: Database, run: Run, tasks: Sequence[Mapping[str, Any]]) -> None:
    """Stores the run, hidden, and the columns of its job rows."""
    run.kind, run.state, run.error, run.finished_at = RunKind.BASELINE, RunState.INTERRUPTED, IMPORT_OPEN, utcnow()
    with short_transaction(database) as session:
        session.add(run)
    for batch in _batches(tasks):
        with short_transaction(database) as session:
            session.execute(insert(RunTask), batch)


def store_samples(database: Database, run_id: uuid.UUID, samples: Iterable[Mapping[str, Any]]) -> None:
    """Stores the columns of samples of a hidden run; all rows have the same columns. Then indexes their tasks."""
    run_tasks: dict[uuid.UUID, None] = {}
    for batch in _batches(samples):
        run_tasks |= dict.fromkeys(row["run_task_id"] for row in batch)
        with short_transaction(database) as session:
            session.execute(insert(Sample), batch)
            session.execute(update(Run).where(Run.id == run_id).values(finished_at=utcnow()))
    for run_task_id in run_tasks:
        indexing.store_unlisted(database, run_id, run_task_id)


def keep_hidden(database: Database, run_ids: Sequence[uuid.UUID]) -> None:
    """Says that the process which stores these runs still lives: some are complete while others are being stored."""
    with short_transaction(database) as session:
        session.execute(update(Run).where(Run.id.in_(run_ids), Run.error == IMPORT_OPEN).values(finished_at=utcnow()))


def show_run(run: Run, state: RunState, error: str | None, finished_at: dt.datetime) -> None:
    """Makes a hidden run an ended one that lists show."""
    run.kind, run.state, run.error, run.finished_at = RunKind.EVAL, state, error, finished_at


def remove_run(database: Database, run_id: uuid.UUID) -> None:
    """Deletes a hidden run, its samples a batch at a time. Another run, or none, stays as it is."""
    hidden = select(Run.id).where(Run.id == run_id, Run.error == IMPORT_OPEN)
    some = select(Sample.id).where(Sample.run_id.in_(hidden)).limit(BATCH)
    while True:
        with short_transaction(database) as session:
            if not updated_any(session, delete(Sample).where(Sample.id.in_(some))):
                break
    with short_transaction(database) as session:
        session.execute(delete(Run).where(Run.id == run_id, Run.error == IMPORT_OPEN))


def remove_abandoned(database: Database) -> None:
    """Deletes the hidden runs whose process has ended before it stored all samples."""
    silent_since = utcnow() - SILENT
    with database.read() as session:
        abandoned = session.scalars(
            select(Run.id).where(Run.error == IMPORT_OPEN, Run.finished_at < silent_since)
        ).all()
    for run_id in abandoned:
        remove_run(database, run_id)


def _batches(rows: Iterable[T]) -> Iterator[list[T]]:
    """The rows in lists of BATCH."""
    iterator = iter(rows)
    while batch := list(islice(iterator, BATCH)):
        yield batch
