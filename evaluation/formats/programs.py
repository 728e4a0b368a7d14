"""Tasks in other languages than Python whose test is part of the program: task_id, language, prompt, test.

The program is prompt + answer + test, and its exit code decides. `entry_point` may be left out: then it is the last
function of the prompt. MultiPL-E's and HumanEval-X's records become such tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evaluation.datasets import PYTHON, Task
from evaluation.formats.base import Format, Record, RecordError, mapping, stops, text
from evaluation.languages import registry
from evaluation.verdicts import Trust


def to_task(record: Record) -> Task:
    """The task in a record; `canonical_solution`, `stop` and `source` may be left out. Raises RecordError."""
    language, prompt = text(record, "language"), text(record, "prompt")
    try:
        registry.language(language)
    except registry.UnknownLanguageError as error:
        raise RecordError(f"field language: {error}") from None
    return Task(
        task_id=text(record, "task_id"),
        prompt=prompt,
        entry_point=text(record, "entry_point", default="") or function_of(prompt, language),
        test=text(record, "test"),
        canonical_solution=text(record, "canonical_solution", default=""),
        stop=stops(record),
        source=source_of(mapping(record, "source") or {}),
        language=language,
    )


def source_of(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Where a task comes from, and that its program could forge the verdict."""
    return {**facts, "judge": "exit code", "trust": Trust.IN_GUEST.value}


def function_of(prompt: str, language: str) -> str:
    """The name of the function that a prompt opens. Raises RecordError."""
    from evaluation.languages.extraction import function_opened  # noqa: PLC0415  (loads tree-sitter)

    name = function_opened(prompt, registry.language(language))
    if name is None:
        raise RecordError(f"field prompt: opens no function in {registry.LABELS[language]}")
    return name


def _matches(record: Record) -> bool:
    return record.get("language") not in (None, PYTHON) and "test" in record and "cases" not in record


FORMAT = Format(matches=_matches, to_task=to_task)
