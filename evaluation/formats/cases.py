"""Tasks in other languages than Python, judged by cases: task_id, language, prompt, signature, cases.

docs/languages.md explains them.
"""

from __future__ import annotations

from evaluation.datasets import PYTHON, Task
from evaluation.formats.base import Format, Record, RecordError, get_mapping, get_optional_text, get_stops, get_text
from evaluation.languages import registry
from evaluation.languages.cases import CaseError, read_cases, read_signature


def to_task(record: Record) -> Task:
    """The task in a record; `canonical_solution`, `stop` and `suffix` may be left out. Raises RecordError."""
    language = get_text(record, "language")
    try:
        registry.load_language(language)
        signature = read_signature(record.get("signature"))
        cases = read_cases(record.get("cases"), signature)
    except registry.UnknownLanguageError as error:
        raise RecordError(f"field language: {error}") from None
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


def _is_match(record: Record) -> bool:
    return "cases" in record or record.get("language") not in (None, PYTHON)


FORMAT = Format(matches=_is_match, to_task=to_task)
