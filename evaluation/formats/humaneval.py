"""HumanEval (Chen et al., arXiv 2107.03374): task_id, prompt, entry_point, test, canonical_solution.

It is the default: a record that no other format claims is read as one of these. With a `suffix` it is a task of
HumanEval-Infilling (Bavarian et al., arXiv 2207.14255), whose program is prompt + answer + suffix, or program_prefix +
answer where that optional field is given. The published single-line set marks itself in its task ids only; an answer of
it ends with its line.
"""

from __future__ import annotations

from typing import Any

from evaluation.datasets import Task
from evaluation.formats.base import Record, RecordError, get_mapping, get_optional_text, get_stops, get_text
from evaluation.project_tests.spec import ProjectTests

_SINGLE_LINE = "SingleLineInfilling/"


def to_task(record: Record) -> Task:
    """The task in a record; `canonical_solution` may be left out. Raises RecordError."""
    task_id, suffix = get_text(record, "task_id"), get_optional_text(record, "suffix")
    line_end = ("\n",) if suffix is not None and task_id.startswith(_SINGLE_LINE) else ()
    return Task(
        task_id=task_id,
        prompt=get_text(record, "prompt"),
        entry_point=get_text(record, "entry_point"),
        test=get_text(record, "test"),
        canonical_solution=get_text(record, "canonical_solution", default=""),
        suffix=suffix,
        stop=tuple(dict.fromkeys((*line_end, *get_stops(record)))),
        program_prefix=None if suffix is None else get_optional_text(record, "program_prefix"),
        source=get_mapping(record, "source"),
        project_tests=_parse_project_tests(record),
        module=get_mapping(record, "module"),
    )


def _parse_project_tests(record: Record) -> dict[str, Any] | None:
    content = get_mapping(record, "project_tests")
    if content is None:
        return None
    try:
        return ProjectTests.from_json(content).to_json()
    except ValueError as error:
        raise RecordError(str(error)) from None


def matches(_record: Record) -> bool:
    """Whether a record is of this format."""
    return True
