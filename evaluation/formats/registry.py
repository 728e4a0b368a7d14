"""The formats that dataset files may have. To add one, write its module and list its FORMAT here."""

from __future__ import annotations

from evaluation.datasets import Task
from evaluation.formats import cases, humaneval, humaneval_x, infilling, mbpp, multipl_e, programs
from evaluation.formats.base import Record

FORMATS = (
    *(multipl_e.FORMAT, humaneval_x.FORMAT, programs.FORMAT, cases.FORMAT),
    *(mbpp.FORMAT, infilling.FORMAT, humaneval.FORMAT),
)
"""The first that matches a record reads it; HumanEval's matches every record."""


def to_task(record: Record) -> Task:
    """The task in a record of any format. Raises RecordError, whose message starts with the field at fault."""
    return next(form for form in FORMATS if form.matches(record)).to_task(record)
