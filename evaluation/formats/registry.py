"""The formats that dataset files may have. To add one, write its module and list it here."""

from __future__ import annotations

from dataclasses import replace

from evaluation.datasets import Task
from evaluation.formats import cases, evalplus, exit_code_tasks, humaneval, humaneval_x, mbpp, multipl_e
from evaluation.formats.base import Format, Record, TrackedRecord

FORMATS: tuple[Format, ...] = (evalplus, multipl_e, humaneval_x, exit_code_tasks, cases, mbpp, humaneval)
"""The first that matches a record reads it; HumanEval's matches every record."""


def to_task(record: Record) -> Task:
    """The task in a record of any format; its source names the fields that play no part.

    Raises RecordError, whose message starts with the field at fault, and LeftOutError for a task that cannot be judged.
    """
    read = TrackedRecord(record)
    task = next(form for form in FORMATS if form.matches(record)).to_task(read)
    not_used = [name for name in read.unread if name != "language"]  # its value has chosen the format
    return replace(task, source={**(task.source or {}), "not_used": not_used}) if not_used else task
