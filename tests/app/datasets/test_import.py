"""A large dataset costs what checking its tasks costs, once."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import event

from app.datasets import service
from app.datasets.models import Task
from app.errors import BadInput
from app.states import DatasetKind
from evaluation import dataset_files as files
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
    kept = service.require(ctx, "many")
    assert (kept.id, kept.n_tasks) == (stored.id, N)
    assert [t.position for t in kept.tasks] == list(range(N))
    assert kept.tasks[7].task_id == "add/7"


def test_content_that_is_stored_already_is_not_checked_again(ctx, monkeypatch):
    first = service.import_bytes(ctx, rows(), "many", "many.jsonl")
    monkeypatch.setattr(files, "loads", None)
    assert service.import_bytes(ctx, rows(), "many", "again.jsonl").id == first.id


def test_storing_the_same_twice_gives_the_row_with_its_tasks(ctx):
    loaded = files.loads(rows(), "many", "many.jsonl")
    one, two = (service.store(ctx, loaded, DatasetKind.IMPORTED) for _ in range(2))
    assert one.id == two.id
    assert len(one.tasks) == len(two.tasks) == N


def test_a_file_of_more_tasks_than_a_request_can_check_is_refused(ctx, monkeypatch):
    monkeypatch.setattr(files, "MAX_TASKS", N - 1)
    with pytest.raises(BadInput, match=f"more than {N - 1} tasks: split it"):
        service.import_bytes(ctx, rows(), "many", "many.jsonl")
