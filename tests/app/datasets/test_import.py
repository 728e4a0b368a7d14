"""A large dataset costs what checking its tasks costs, once."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import event

from app.core.errors import BadInputError
from app.core.states import DatasetKind
from app.datasets import service
from app.datasets.models import Task
from evaluation import dataset_files
from tests.fakes import RIGHT

N = 300


def rows() -> bytes:
    task = {
        "prompt": "def add(a, b):\n",
        "entry_point": "add",
        "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n",
        "canonical_solution": RIGHT,
    }
    return "\n".join(json.dumps({"task_id": f"add/{i}", **task}) for i in range(N)).encode()


def test_tasks_are_written_as_rows_not_as_an_object_each(ctx):
    made = []

    def count(*_given):
        made.append(1)

    event.listen(Task, "init", count)
    try:
        stored = service.import_bytes(ctx, rows(), "many", "many.jsonl")
    finally:
        event.remove(Task, "init", count)
    assert not made
    kept = service.require_dataset(ctx, "many")
    assert (kept.id, kept.n_tasks) == (stored.id, N)
    assert [t.position for t in kept.tasks] == list(range(N))
    assert kept.tasks[7].task_id == "add/7"


def test_others_may_write_while_the_rows_of_an_import_are_made(ctx, monkeypatch):
    made = []

    def write_elsewhere(position, task):
        with closing(sqlite3.connect(ctx.database.file, timeout=0, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
        made.append(position)
        return task_columns(position, task)

    task_columns = service.build_task_columns
    monkeypatch.setattr(service, "build_task_columns", write_elsewhere)
    service.import_bytes(ctx, rows(), "many", "many.jsonl")
    assert made == list(range(N))


def test_content_that_is_stored_already_is_not_checked_again(ctx, monkeypatch):
    first = service.import_bytes(ctx, rows(), "many", "many.jsonl")
    monkeypatch.setattr(dataset_files, "parse_dataset", None)
    assert service.import_bytes(ctx, rows(), "many", "again.jsonl").id == first.id


def test_storing_the_same_twice_gives_the_row_with_its_tasks(ctx):
    loaded = dataset_files.parse_dataset(rows(), "many", "many.jsonl")
    one, two = (service.store_dataset(ctx, loaded, DatasetKind.IMPORTED) for _ in range(2))
    assert one.id == two.id
    assert len(one.tasks) == len(two.tasks) == N


def test_a_file_of_more_tasks_than_a_request_can_check_is_refused_before_any_is_compiled(ctx, monkeypatch):
    monkeypatch.setattr(dataset_files, "MAX_TASKS", N - 1)
    monkeypatch.setattr(dataset_files, "_check_task", None)
    monkeypatch.setattr(dataset_files.registry, "to_task", None)
    with pytest.raises(BadInputError, match=f"more than {N - 1} tasks: split it"):
        service.import_bytes(ctx, rows(), "many", "many.jsonl")


def test_blank_lines_are_no_tasks(ctx, monkeypatch):
    monkeypatch.setattr(dataset_files, "MAX_TASKS", N)
    assert service.import_bytes(ctx, rows().replace(b"\n", b"\n \n"), "many", "many.jsonl").n_tasks == N


def test_an_id_that_is_there_twice_is_found_before_any_task_is_compiled(ctx, monkeypatch):
    monkeypatch.setattr(dataset_files, "_check_task", None)
    data = rows().replace(f"add/{N - 1}".encode(), b"add/0")
    with pytest.raises(BadInputError, match=f"many.jsonl, line {N}, field task_id: 'add/0' is already the task of"):
        service.import_bytes(ctx, data, "many", "many.jsonl")


@pytest.mark.parametrize("name", ["", " ", " mine", "mine ", "--help", "-", ".mine", "a\nb", "x" * 201])
def test_a_name_that_reads_as_an_option_or_as_nothing_is_refused(ctx, name):
    with pytest.raises(
        BadInputError, match=r"name is .*: give 1 to 200 printable characters, first a letter"
    ) as refused:
        service.import_bytes(ctx, rows(), name, "many.jsonl")
    assert refused.value.field == "name"


@pytest.mark.parametrize("name", ["mine", "2026-11 tasks", "_private", "MBPP+ (sanitized)", "aufgaben-äöü"])
def test_other_names_are_fine(ctx, name):
    assert service.import_bytes(ctx, rows(), name, "many.jsonl").name == name
