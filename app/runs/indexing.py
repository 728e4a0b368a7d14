"""Keeps the search index: code that stores or changes samples calls this in the same transaction."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from app.core.db.database import Database
from app.core.states import LISTED_RUN_KINDS
from app.datasets.models import Task
from app.runs.figures import is_finished
from app.runs.index_models import TaskWords
from app.runs.models import Run, RunTask
from app.samples.models import Sample
from app.samples.transport import searched
from app.samples.words import label, within_limit, words_in

LATE = label("finished", "no")
CHUNK = 40  # tasks whose texts are in memory at once
SEARCHED = 100_000  # characters at the beginning of each text: a page reads the samples of many tasks

_FAULTS = tuple(name for name in searched(Sample) if name not in ("program", "raw"))
TEXTS = ("program", "raw", *_FAULTS)
"""What is searched of a sample, by the names of its columns."""


class Indexed(NamedTuple):
    """What the index reads of a sample."""

    finish_reason: str
    finished_s: float | None
    verdict: str | None
    texts: list[str | None]  # errors first: if a task has too many words, the words of its programs are left out

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> Indexed:
        """A sample from its columns by name; those that have no value yet may be missing."""
        texts = [columns.get(name) for name in (*_FAULTS, "program", "raw")]
        return cls(columns["finish_reason"], columns["finished_s"], columns.get("verdict"), texts)


def searched_part(name: str) -> ColumnElement[str]:
    """The part of a text that is searched, under the name of its column."""
    return func.substr(getattr(Sample, name), 1, SEARCHED).label(name)


_COLUMNS = (Sample.finish_reason, Sample.finished_s, Sample.verdict, *map(searched_part, TEXTS))


def with_verdict(verdict: str) -> str:
    """The word of tasks with a sample of this verdict."""
    return label("verdict", verdict)


def with_task_id(task_id: str) -> str:
    """The word of the tasks with this task id, of any dataset."""
    return label("task", task_id)


def store(session: Session, run: Run, run_task_ids: Sequence[uuid.UUID]) -> None:
    """Indexes the samples of these tasks of the run as the session sees them.

    Lists hide completions and baselines, so search does not find them: they are not indexed.
    """
    for ids in (run_task_ids[i : i + CHUNK] for i in range(0, len(run_task_ids), CHUNK)):
        _write(session, run, _words(session, ids))


def find_words(database: Database, run_task_id: uuid.UUID) -> dict[uuid.UUID, list[str]]:
    """The words of a task, found outside the transaction that stores them."""
    with database.read() as session:
        return _words(session, [run_task_id])


def store_words(run_id: uuid.UUID, words: Mapping[uuid.UUID, list[str]], session: Session) -> None:
    """Indexes a task of a run that lists will have soon."""
    if words:
        _upsert(session, run_id, words)


def store_task(session: Session, run: Run, run_task_id: uuid.UUID, task_id: str, samples: Sequence[Indexed]) -> None:
    """The same for all samples of one task, which need not be read: a worker has them in memory."""
    _write(session, run, {run_task_id: _words_of(task_id, samples)})


def forget(session: Session, run_tasks: ColumnElement[bool]) -> None:
    """Removes the tasks that fulfil a condition on RunTask from the index: their samples are deleted."""
    chosen = select(RunTask.id).where(run_tasks)
    session.execute(
        delete(TaskWords).where(TaskWords.run_task_id.in_(chosen)), execution_options={"synchronize_session": False}
    )


def _write(session: Session, run: Run, words: Mapping[uuid.UUID, list[str]]) -> None:
    if run.kind in LISTED_RUN_KINDS and words:
        _upsert(session, run.id, words)


def _upsert(session: Session, run_id: uuid.UUID, words: Mapping[uuid.UUID, list[str]]) -> None:
    connection = session.connection()
    new = postgresql.insert(TaskWords) if connection.dialect.name == "postgresql" else sqlite.insert(TaskWords)
    # One statement for new tasks and for those whose samples have changed.
    upsert = new.on_conflict_do_update(index_elements=["run_task_id"], set_={"words": new.excluded.words})
    connection.execute(
        upsert, [{"run_task_id": row_id, "run_id": run_id, "words": found} for row_id, found in words.items()]
    )


def _words(session: Session, run_task_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, list[str]]:
    """The words of each task that has samples, in the order of `run_task_ids`."""
    query = select(Sample.run_task_id, Task.task_id, *_COLUMNS)
    query = query.join(RunTask, RunTask.id == Sample.run_task_id).join(Task, Task.id == RunTask.task_pk)
    task_ids: dict[uuid.UUID, str] = {}
    samples: dict[uuid.UUID, list[Indexed]] = {}
    for row in session.execute(query.where(Sample.run_task_id.in_(run_task_ids))):
        task_ids[row.run_task_id] = row.task_id
        samples.setdefault(row.run_task_id, []).append(Indexed.of(row._asdict()))
    return {row_id: _words_of(task_ids[row_id], samples[row_id]) for row_id in run_task_ids if row_id in samples}


def _words_of(task_id: str, samples: Sequence[Indexed]) -> list[str]:
    verdicts = {s.verdict for s in samples if s.verdict is not None}
    late = [LATE] if any(not is_finished(s) for s in samples) else []
    labels = [with_task_id(task_id), *late, *map(with_verdict, sorted(verdicts))]
    texts = chain.from_iterable(zip(*(sample.texts for sample in samples), strict=True))
    return within_limit([*labels, *words_in(text[:SEARCHED] for text in texts if text)])
