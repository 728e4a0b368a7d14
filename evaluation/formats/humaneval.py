"""HumanEval (Chen et al., arXiv 2107.03374): task_id, prompt, entry_point, test, canonical_solution.

It is the default: a record that no other format claims is read as one of these.
"""

from __future__ import annotations

from typing import Any

from evaluation.datasets import Task
from evaluation.formats.base import Format, Record, RecordError, mapping, stops, text
from evaluation.project_tests.spec import ProjectTests


def to_task(record: Record) -> Task:
    """The task in a record; `canonical_solution` may be left out. Raises RecordError."""
    return Task(
        task_id=text(record, "task_id"),
        prompt=text(record, "prompt"),
        entry_point=text(record, "entry_point"),
        test=text(record, "test"),
        canonical_solution=text(record, "canonical_solution", default=""),
        stop=stops(record),
        source=mapping(record, "source"),
        project_tests=_project_tests(record),
        module=mapping(record, "module"),
    )


def _project_tests(record: Record) -> dict[str, Any] | None:
    content = mapping(record, "project_tests")
    if content is None:
        return None
    try:
        return ProjectTests.of(content).as_json()
    except ValueError as error:
        raise RecordError(str(error)) from None


FORMAT = Format(matches=lambda _record: True, to_task=to_task)
