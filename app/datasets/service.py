"""Datasets: stored once per content, selected from, and deleted with the project's files that only they need."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, delete, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, selectinload

from app.core.context import Context
from app.core.db.archives import ProjectArchive
from app.core.db.references import count_references
from app.core.db.storable import find_unstorable_reason
from app.core.db.types import generate_id
from app.core.errors import BadInputError, ConflictError
from app.core.states import DatasetKind
from app.datasets import repository
from app.datasets.models import Dataset, Task
from app.web.ui.units import format_count
from decoding.suggest import build_advice
from evaluation import dataset_files, dataset_process
from evaluation import datasets as evaluation_datasets
from evaluation.languages.cases import read_cases, read_signature

BUILTIN = {"humaneval": dataset_files.HUMANEVAL_SHA256}  # name -> sha256 of the content
LONGEST_NAME = 200
_NAME = re.compile(r"\w")


def require_dataset(ctx: Context, name: str) -> Dataset:
    """The newest dataset of that name with its tasks. Raises BadInputError.

    A built-in one is unpacked and stored on first use; later uses read its rows.
    """
    with ctx.database.read() as session:
        if name in BUILTIN:
            stored = repository.find_by_content(session, name, BUILTIN[name])
        else:
            stored = repository.find_newest(session, name)
            if stored is None:
                known = sorted({*BUILTIN, *(d.name for d in repository.list_datasets(session))})
                use = f"use one of {', '.join(known)}, or import a file with `bassline datasets import FILE`"
                raise BadInputError(f"there is no dataset {name!r}: {build_advice(name, known, use)}", "dataset")
    return stored or store_dataset(ctx, dataset_files.load_bundled_dataset(name), DatasetKind.BUILTIN)


def find_dataset(ctx: Context, dataset_id: uuid.UUID) -> Dataset | None:
    """The dataset of that id with its tasks, or None."""
    with ctx.database.read() as session:
        return session.scalar(select(Dataset).where(Dataset.id == dataset_id).options(selectinload(Dataset.tasks)))


def import_file(ctx: Context, path: Path, name: str | None = None) -> Dataset:
    """A JSONL file as a stored dataset, without its tasks. Raises BadInputError naming line, field and remedy."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror}", "dataset") from None
    return import_bytes(ctx, data, name or path.name.split(".")[0], path.name)


def import_bytes(
    ctx: Context,
    data: bytes,
    name: str,
    origin: str,
    left_out: Sequence[dict[str, Any]] = (),
    coverage: dict[str, Any] | None = None,
) -> Dataset:
    """The content of a JSONL file, plain or gzipped, as a stored dataset without its tasks.

    `left_out` are the functions or tasks that were left out, and why; `coverage` is about a project's functions.
    Raises BadInputError, which calls the file `origin`.
    """
    check_name(name)
    known = _find_known(ctx, name, hashlib.sha256(data).hexdigest())
    if known is not None:
        return known  # it was checked when it was stored
    try:
        loaded = dataset_process.parse_dataset_apart(data, name, origin)
    except evaluation_datasets.DatasetError as error:
        raise BadInputError(str(error), "dataset") from None
    for task in loaded.tasks:
        _check_storable(task)
    if loaded.left_out:
        left_out = [*left_out, *(build_left_out_row(each.reason, each.task_id) for each in loaded.left_out)]
    return _store_rows(ctx, loaded, DatasetKind.IMPORTED, left_out, coverage)


def build_left_out_row(reason: str, name: str, *, file: str = "", line: int = 0, detail: str = "") -> dict[str, Any]:
    """A row of Dataset.left_out: why a function or task was left out."""
    return {"file": file, "function": name, "line": line, "reason": reason, "detail": detail}


def check_name(name: str) -> None:
    """Raises BadInputError for a name that an imported dataset cannot have.

    Names are typed on command lines and shown in lists: one must not look like an option or be blank.
    """
    if name in BUILTIN:
        raise BadInputError(f"{name!r} is the name of a built-in dataset: import the file under another name", "name")
    if not (_NAME.match(name) and name[-1] != " " and len(name) <= LONGEST_NAME and name.isprintable()):
        raise BadInputError(
            f"name is {name[:60]!r}: give 1 to {LONGEST_NAME} printable characters, first a letter, a digit or an "
            "underscore, and at the end no space",
            "name",
        )


def store_dataset(ctx: Context, dataset: evaluation_datasets.Dataset, kind: DatasetKind) -> Dataset:
    """The stored dataset with this content, with its tasks; it is written if it is new."""
    kept = _store_rows(ctx, dataset, kind)
    with ctx.database.read() as session:
        return repository.find_by_content(session, dataset.name, dataset.sha256) or kept


def _store_rows(
    ctx: Context,
    dataset: evaluation_datasets.Dataset,
    kind: DatasetKind,
    left_out: Sequence[dict[str, Any]] = (),
    coverage: dict[str, Any] | None = None,
) -> Dataset:
    """The stored dataset with this content, without its tasks."""
    if (known := _find_known(ctx, dataset.name, dataset.sha256)) is not None:
        return known
    row = Dataset(id=generate_id(), name=dataset.name, sha256=dataset.sha256, kind=kind, n_tasks=len(dataset.tasks))
    row.coverage = coverage
    if left_out:
        row.left_out, row.n_left_out = list(left_out), len(left_out)
    # Built before the transaction and inserted in bulk: SQLite has one writer, and others wait for it.
    rows = [
        {"id": generate_id(), "dataset_id": row.id, **build_task_columns(*place)} for place in enumerate(dataset.tasks)
    ]
    try:
        with ctx.database.session() as session:
            session.add(row)
            session.flush()
            session.execute(insert(Task.metadata.tables[Task.__tablename__]), rows)
    except IntegrityError:  # another process stored it in the meantime
        if (known := _find_known(ctx, dataset.name, dataset.sha256)) is None:
            raise
        return known
    return row


def _find_known(ctx: Context, name: str, sha256: str) -> Dataset | None:
    with ctx.database.read() as session:
        return session.scalar(select(Dataset).where(Dataset.name == name, Dataset.sha256 == sha256))


def delete_dataset(ctx: Context, dataset_id: uuid.UUID) -> None:
    """Removes a dataset that no run and no study uses. A built-in one is stored again when it is next used.

    Raises NotFoundError, and ConflictError that says what refers to the dataset.
    """
    try:
        with ctx.database.session() as session:
            dataset = repository.get_dataset(session, dataset_id)
            if references := count_references(session, dataset):
                raise ConflictError(_explain_references(dataset.name, references))
            archives = _find_archives(session, Task.dataset_id == dataset_id)
            session.delete(dataset)
            session.flush()
            unused = archives - _find_archives(session, Task.project_tests.is_not(None))
            session.execute(delete(ProjectArchive).where(ProjectArchive.sha256.in_(unused)))
    except IntegrityError:  # a run over it was stored in the meantime
        raise ConflictError("a run over the dataset was just stored: delete it first") from None


def _explain_references(name: str, references: dict[str, int]) -> str:
    singular = {"runs": "run", "studies": "study"}
    used = " and ".join(format_count(count, singular.get(table, table)) for table, count in references.items())
    return f"{name} is used by {used}: delete {'it' if sum(references.values()) == 1 else 'them'} first"


def _find_archives(session: Session, condition: ColumnElement[bool]) -> set[str]:
    """The archives that the tasks under this condition name."""
    rows = session.scalars(select(Task.project_tests).where(condition, Task.project_tests.is_not(None)))
    return {row[field] for row in rows if row for field in ("project", "installed")}


def has_weak_tests(task: Task) -> bool:
    """Whether a task was made from code, and its tests notice too few faults."""
    return (task.source or {}).get("weak") is True


def is_unstated(task: Task) -> bool:
    """Whether a task was made from code, and its tests ask for what its prompt does not tell."""
    return bool((task.source or {}).get("unstated"))


def is_excluded_by_default(task: Task) -> bool:
    """Whether runs and studies leave a task out unless it is asked for."""
    return has_weak_tests(task) or is_unstated(task)


def select_tasks(dataset: Dataset, task_ids: Sequence[str], limit: int | None, weak: bool = True) -> list[Task]:
    """The tasks asked for, in dataset order; without ids all, weak and unstated ones only if wanted (`weak`).

    Raises BadInputError for an id the dataset does not have, and where no task is left.
    """
    if task_ids:
        content = to_evaluation_dataset(dataset, dataset.tasks)
        try:
            wanted = {task.task_id for task in content.select(task_ids)}
        except evaluation_datasets.DatasetError as error:
            raise BadInputError(str(error), "task_ids") from None
        return [t for t in dataset.tasks if t.task_id in wanted][:limit]
    tasks = [task for task in dataset.tasks if weak or not is_excluded_by_default(task)]
    if not tasks:
        raise BadInputError(
            f"every task of {dataset.name} has a weak test or asks for what its prompt does not tell: run them with "
            "--weak",
            "weak",
        )
    return tasks[:limit]


def to_evaluation_dataset(dataset: Dataset, tasks: Sequence[Task]) -> evaluation_datasets.Dataset:
    """The stored dataset with these tasks as evaluation/ knows it."""
    return evaluation_datasets.Dataset(dataset.name, tuple(map(to_evaluation_task, tasks)), dataset.sha256)


_SAME_COLUMNS = (
    *("task_id", "prompt", "entry_point", "test", "canonical_solution", "suffix", "program_prefix", "language"),
    *("source", "project_tests", "module"),
)
_LIST_COLUMNS = ("stop", "messages", "prompt_token_ids")  # tuples in evaluation/


def to_evaluation_task(task: Task) -> evaluation_datasets.Task:
    """The stored task as evaluation/ knows it."""
    fields: dict[str, Any] = {name: getattr(task, name) for name in (*_SAME_COLUMNS, *_LIST_COLUMNS)}
    fields |= {name: tuple(fields[name]) for name in _LIST_COLUMNS if fields[name] is not None}
    if task.signature is not None:
        signature = read_signature(task.signature)
        fields |= {"signature": signature, "cases": read_cases(task.cases, signature)}
    return evaluation_datasets.Task(**fields)


def _check_storable(task: evaluation_datasets.Task) -> None:
    """Raises BadInputError for a value that a database column cannot hold."""
    if max(len(task.task_id), len(task.entry_point)) > LONGEST_NAME:
        raise BadInputError(
            f"task {task.task_id[:60]!r}: give task_id and entry_point at most {LONGEST_NAME} characters"
        )
    for name in ("task_id", "prompt", "test", "canonical_solution", "suffix", "program_prefix"):
        if fault := find_unstorable_reason(getattr(task, name) or ""):
            raise BadInputError(f"task {task.task_id!r}: {name} holds {fault}, remove it")
    if fault := find_unstorable_reason("".join(task.stop)):
        raise BadInputError(f"task {task.task_id!r}: stop holds {fault}, remove it")
    documents = {"source": task.source, "cases": [case.to_json() for case in task.cases]}
    for name, document in documents.items():
        if fault := find_unstorable_reason(json.dumps(document, ensure_ascii=False)):
            raise BadInputError(f"task {task.task_id!r}: {name} holds {fault}, remove it")


def build_task_columns(position: int, task: evaluation_datasets.Task) -> dict[str, Any]:
    """The task as columns of `tasks`, without those that say what it belongs to."""
    columns = {name: getattr(task, name) for name in (*_SAME_COLUMNS, *_LIST_COLUMNS)}
    return columns | {
        "position": position,
        "signature": None if task.signature is None else task.signature.to_json(),
        "cases": [case.to_json() for case in task.cases] or None,
    }
