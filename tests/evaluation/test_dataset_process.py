"""A large dataset file is checked in another process, with the same result and the same sentences."""

from __future__ import annotations

import gzip
import json

import pytest

from evaluation import dataset_files, dataset_process
from evaluation.datasets import DatasetError

ROW = {
    "task_id": "T/0",
    "prompt": "def add(a, b):\n",
    "entry_point": "add",
    "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n",
    "canonical_solution": "    return a + b\n",
    "stop": ["\n#"],
    "source": {"file": "ä.py"},
}
INFILL = {
    **ROW,
    "task_id": "SingleLineInfilling/0",
    "suffix": "    return x\n",
    "canonical_solution": "    x = a + b\n",
}
CODE = "def add(a, b):\n    return a + b\n"
MBPP = {"task_id": 3, "text": "Add.", "code": CODE, "test_list": ["assert add(1, 2) == 3"]}


def file(*rows) -> bytes:
    return "\n".join(map(json.dumps, rows)).encode()


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch):
    monkeypatch.setattr(dataset_process, "MAX_CHARS_HERE", 0)
    monkeypatch.setattr(dataset_files, "_check_task", None)  # whatever is compiled, is compiled elsewhere


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_tasks_of_every_format_are_the_same(monkeypatch, pack):
    data = pack(file(ROW, INFILL, MBPP))
    apart = dataset_process.parse_dataset_apart(data, "mixed", "mixed.jsonl")
    monkeypatch.undo()
    assert apart == dataset_files.parse_dataset(data, "mixed", "mixed.jsonl")
    assert len(apart.tasks) == 3


@pytest.mark.parametrize(
    "rows",
    [
        (ROW, {**ROW, "task_id": "T/1", "test": "def check(:\n"}),
        (ROW, ROW),
        (ROW, {**ROW, "task_id": "T/1", "entry_point": ""}),
        ({**MBPP, "code": "def add(:"},),
    ],
)
def test_a_fault_is_the_same_sentence(monkeypatch, rows):
    with pytest.raises(DatasetError) as apart:
        dataset_process.parse_dataset_apart(file(*rows), "bad", "bäd\n.jsonl")
    monkeypatch.undo()
    with pytest.raises(DatasetError) as here:
        dataset_files.parse_dataset(file(*rows), "bad", "bäd\n.jsonl")
    assert str(apart.value) == str(here.value)


def test_a_parser_that_dies_is_one_sentence(monkeypatch):
    monkeypatch.setattr(dataset_process, "_SERVE", "import os; os.abort()")
    with pytest.raises(DatasetError, match=r"t\.jsonl cannot be checked"):
        dataset_process.parse_dataset_apart(file(ROW), "t", "t.jsonl")
