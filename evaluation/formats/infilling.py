"""HumanEval-Infilling (Bavarian et al., arXiv 2207.14255): HumanEval's fields and `suffix`.

The program is prompt + answer + suffix, or program_prefix + answer where that optional field is given. The published
single-line set marks itself in its task ids only; an answer of it ends with its line.
"""

from __future__ import annotations

from dataclasses import replace

from evaluation.datasets import Task
from evaluation.formats import humaneval
from evaluation.formats.base import Format, Record, RecordError

_SINGLE_LINE = "SingleLineInfilling/"


def to_task(record: Record) -> Task:
    """The task in a record. Raises RecordError."""
    suffix = record["suffix"]
    if not isinstance(suffix, str):
        raise RecordError(f"field suffix: is a {type(suffix).__name__}, give a string or leave it out")
    prefix = record.get("program_prefix")
    if prefix is not None and not isinstance(prefix, str):
        raise RecordError(f"field program_prefix: is a {type(prefix).__name__}, give a string or leave it out")
    task = humaneval.to_task(record)
    line_end = ("\n",) if task.task_id.startswith(_SINGLE_LINE) else ()
    return replace(task, suffix=suffix, program_prefix=prefix, stop=tuple(dict.fromkeys((*line_end, *task.stop))))


FORMAT = Format(matches=lambda record: record.get("suffix") is not None, to_task=to_task)
