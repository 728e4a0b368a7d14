"""Datasets are read whole or refused with file, line and field."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation import dataset_files, jsonlines
from evaluation.dataset_files import parse_dataset, write_dataset
from evaluation.datasets import DatasetError

ROW: dict[str, Any] = {
    "task_id": "T/0",
    "prompt": "def one():\n",
    "entry_point": "one",
    "test": "def check(candidate):\n    assert candidate() == 1\n",
    "canonical_solution": "    return 1\n",
}
MBPP: dict[str, Any] = {
    "task_id": 2,
    "text": 'Add "one" to it: \\n is kept.',
    "code": "import math\r\ndef helper(x):\r\n  return x\r\ndef plus(x):\r\n  return helper(x) + 1",
    "test_setup_code": "",
    "test_list": ["assert plus(1) == 2", "assert plus(plus(1)) == 3, 'plus'"],
    "challenge_test_list": [],
}


def file(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def test_humaneval_is_the_published_file() -> None:
    dataset = dataset_files.load_bundled_dataset("humaneval")
    assert len(dataset.tasks) == 164
    assert dataset.sha256 == "b796127e635a67f93fb35c04f4cb03cf06f38c8072ee7cee8833d7bee06979ef"
    assert [t.task_id for t in dataset.tasks] == [f"HumanEval/{i}" for i in range(164)]
    assert all(t.prompt.endswith("\n") and t.suffix is None and t.stop == () for t in dataset.tasks)


def test_an_unknown_name_says_what_there_is() -> None:
    with pytest.raises(DatasetError, match="humaneval"):
        dataset_files.load_bundled_dataset("humaneval2")


def test_a_file_is_known_by_its_sha256_zipped_or_not(tmp_path: Path) -> None:
    plain, zipped = tmp_path / "mine.jsonl", tmp_path / "mine.jsonl.gz"
    plain.write_bytes(b"\n" + file(ROW))
    zipped.write_bytes(gzip.compress(file(ROW)))
    for path in (plain, zipped):
        dataset = parse_dataset(path.read_bytes(), "mine", path.name)
        assert dataset.name == "mine"
        assert dataset.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
        assert dataset.tasks[0].prompt == ROW["prompt"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt": None}, "field prompt: is missing"),
        ({"prompt": 3}, "field prompt: is a int"),
        ({"prompt": " "}, "field prompt: is empty"),
        ({"prompt": "def one(:\n"}, "field prompt: does not compile with a body added"),
        ({"entry_point": "one two"}, "field entry_point: 'one two' is not a function name"),
        ({"entry_point": "two"}, "field entry_point: prompt and canonical_solution define no 'two'"),
        ({"test": "assert one() == 1"}, r"field test: define check\(candidate\)"),
        ({"test": "def check("}, "field test: does not compile"),
        ({"canonical_solution": "return 1\n"}, "field canonical_solution: does not compile after the prompt"),
        ({"suffix": 3}, "field suffix: is a int"),
        ({"suffix": "x", "program_prefix": 3}, "field program_prefix: is a int"),
        ({"source": []}, "field source: is a list"),
        ({"stop": "\n"}, "field stop: give a list"),
        ({"stop": [""]}, "field stop: give a list of non-empty strings"),
        ({"task_id": "T\x000"}, "field task_id: holds control characters"),
    ],
)
def test_a_bad_field_is_named_with_file_and_line(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DatasetError, match=rf"mine\.jsonl, line 2, {message}"):
        parse_dataset(file(ROW, {**ROW, "task_id": "T/1", **change}), "mine", "mine.jsonl")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "holds no tasks"),
        (b"{", "line 1 is not JSON"),
        (b"[1]\n", "line 1 is a JSON list"),
        (b"\xff\xfe", "is not UTF-8"),
        (gzip.compress(file(ROW))[:-9], "is not a complete gzip file"),
        (file(ROW, ROW), "line 2, field task_id: 'T/0' is already the task of mine.jsonl, line 1"),
    ],
)
def test_a_bad_file_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        parse_dataset(data, "mine", "mine.jsonl")


def test_a_file_that_decompresses_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonlines, "MAX_BYTES", 2**20)
    with pytest.raises(DatasetError, match="holds more than 1 MiB"):
        parse_dataset(gzip.compress(b" " * 2**21), "mine", "mine.jsonl.gz")


@given(st.binary(max_size=80) | st.text(max_size=80).map(str.encode))
def test_any_bytes_load_or_raise_a_dataset_error(data: bytes) -> None:
    with pytest.raises(DatasetError):
        parse_dataset(data, "mine", "mine.jsonl")


def test_an_infilling_task_needs_no_compiling_prompt() -> None:
    row = {**ROW, "prompt": "def one():\n    if ", "suffix": ":\n        return 1\n", "canonical_solution": "True"}
    assert parse_dataset(file(row), "fim", "fim.jsonl").tasks[0].suffix == row["suffix"]


@pytest.mark.parametrize(
    ("task_id", "own", "stop"),
    [
        ("SingleLineInfilling/HumanEval/0/L0", [], ("\n",)),
        ("SingleLineInfilling/HumanEval/0/L0", ["#", "\n"], ("\n", "#")),
        ("MultiLineInfilling/HumanEval/0/L0_L1", ["#"], ("#",)),
    ],
)
def test_an_answer_of_the_single_line_infilling_set_ends_with_its_line(
    task_id: str, own: list[str], stop: tuple[str, ...]
) -> None:
    row = {**ROW, "task_id": task_id, "suffix": "    return 1\n", "canonical_solution": "", "stop": own}
    assert parse_dataset(file(row), "fim", "fim.jsonl").tasks[0].stop == stop


def test_a_task_may_lack_a_solution_and_have_its_own_stops() -> None:
    task = parse_dataset(file({**ROW, "canonical_solution": "", "stop": ["\n#", "\n#"]}), "x", "x.jsonl").tasks[0]
    assert (task.canonical_solution, task.stop) == ("", ("\n#",))


def test_mbpp_rows_become_tasks_whose_reference_passes() -> None:
    task = parse_dataset(file(MBPP), "mbpp", "mbpp.jsonl").tasks[0]
    assert (task.task_id, task.entry_point) == ("MBPP/2", "plus")
    assert "plus" not in task.test.replace("'plus'", "")
    scope: dict[str, Any] = {}
    exec(f"{task.prompt}{task.canonical_solution}\n{task.test}\ncheck(plus)\n", scope)
    assert scope["__doc__"].strip() == f"{MBPP['text']}\n{MBPP['test_list'][0]}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"code": "def plus(:"}, "field code: does not compile"),
        ({"test_list": []}, "field test_list: give a list"),
        ({"test_list": ["assert minus(1) == 0"]}, "field test_list: calls no function that code defines"),
        ({"test_list": ["assert ("]}, "field test_list: 'assert \\(' does not compile"),
        ({"text": ""}, "field text: is empty"),
        ({"test_imports": [1]}, "field test_imports: give a list of import statements"),
        ({"test_setup_code": ["import math"]}, "field test_setup_code: is a list, give a string"),
    ],
)
def test_a_bad_mbpp_field_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DatasetError, match=f"line 1, {message}"):
        parse_dataset(file({**MBPP, **change}), "mbpp", "mbpp.jsonl")


def test_tasks_are_selected_in_file_order_and_unknown_ids_refused() -> None:
    dataset = dataset_files.load_bundled_dataset("humaneval")
    assert [t.task_id for t in dataset.select(["HumanEval/5", "HumanEval/2"])] == ["HumanEval/2", "HumanEval/5"]
    with pytest.raises(DatasetError, match=r"did you mean HumanEval/5\?"):
        dataset.select(["humaneval/5"])


def test_a_written_file_gives_its_tasks_back():
    rows = [
        {**ROW, "task_id": "a", "stop": ["#"], "source": {"file": "a.py", "line": 3}},
        {**ROW, "task_id": "b", "suffix": "\n", "program_prefix": ROW["prompt"]},
    ]
    tasks = parse_dataset(file(*rows), "both", "both.jsonl").tasks
    assert parse_dataset(write_dataset(tasks), "both", "both.jsonl").tasks == tasks
