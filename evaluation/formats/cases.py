"""Tasks in other languages than Python, judged by cases: task_id, language, prompt, signature, cases.

docs/languages.md explains them.
"""

from __future__ import annotations

from evaluation.datasets import PYTHON, Task
from evaluation.formats.base import (
    Record,
    RecordError,
    get_language,
    get_mapping,
    get_optional_text,
    get_stops,
    get_text,
)
from evaluation.languages.cases import CaseError, read_cases, read_signature


def to_task(record: Record) -> Task:
    """The task in a record; `canonical_solution`, `stop` and `suffix` may be left out. Raises RecordError."""
    language = get_language(record)
    try:
        signature = read_signature(record.get("signature"))
        cases = read_cases(record.get("cases"), signature)
    except CaseError as error:
        raise RecordError(str(error)) from None
    return Task(
        task_id=get_text(record, "task_id"),
        prompt=get_text(record, "prompt"),
        entry_point=signature.name,
        test="",
        canonical_solution=get_text(record, "canonical_solution", default=""),
        suffix=get_optional_text(record, "suffix"),
        stop=get_stops(record),
        source=get_mapping(record, "source"),
        language=language,
        signature=signature,
        cases=cases,
    )


def matches(record: Record) -> bool:
    """Whether a record is of this format."""
    return "cases" in record or record.get("language") not in (None, PYTHON)
