"""Tasks in other languages than Python whose test is part of the program: task_id, language, prompt, test.

The program is prompt + answer + test, and its exit code decides. `entry_point` may be left out: then it is the last
function of the prompt. MultiPL-E's and HumanEval-X's records become such tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evaluation.datasets import PYTHON, Task
from evaluation.formats.base import Record, RecordError, get_language, get_mapping, get_stops, get_text
from evaluation.languages import registry
from evaluation.verdicts import Trust


def to_task(record: Record) -> Task:
    """The task in a record; `canonical_solution`, `stop` and `source` may be left out. Raises RecordError."""
    language, prompt = get_language(record), get_text(record, "prompt")
    return Task(
        task_id=get_text(record, "task_id"),
        prompt=prompt,
        entry_point=get_text(record, "entry_point", default="") or find_function_name(prompt, language),
        test=get_text(record, "test"),
        canonical_solution=get_text(record, "canonical_solution", default=""),
        stop=get_stops(record),
        source=build_source(get_mapping(record, "source") or {}),
        language=language,
    )


def build_source(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Where a task comes from, and that its program could forge the verdict."""
    return {**facts, "judge": "exit code", "trust": Trust.IN_GUEST.value}


def find_function_name(prompt: str, language: str) -> str:
    """The name of the function that a prompt opens. Raises RecordError."""
    from evaluation.languages.extraction import find_open_function  # noqa: PLC0415  (loads tree-sitter)

    name = find_open_function(prompt, registry.load_language(language))
    if name is None:
        raise RecordError(f"field prompt: opens no function in {registry.LABELS[language]}")
    return name


def matches(record: Record) -> bool:
    """Whether a record is of this format."""
    return record.get("language") not in (None, PYTHON) and "test" in record and "cases" not in record
