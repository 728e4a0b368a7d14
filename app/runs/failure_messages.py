"""The samples of a run that did not pass, by cause, error message and the line that failed."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, TypeVar

from sqlalchemy import Row, case, or_, select
from sqlalchemy.orm import Session

from app.core.states import PASSED
from app.datasets.models import Task
from app.runs.figures import is_finished
from app.runs.models import RunTask
from app.samples.models import FINISHED_REASONS, Sample
from app.web.ui.display import UNFINISHED, VerdictSign, verdict_sign
from evaluation.verdicts import Status

LONGEST = 300  # characters of a message or line, which programs choose
SHOWN = {"messages": 15, "lines": 8, "tasks": 12}  # of each cause, message and line; the rest is counted
FailedSample = Row[*tuple[Any, ...]]  # the columns that `_failed` selects
K = TypeVar("K", bound=Hashable)
_FRAME = re.compile(r'^  File "[^"\n]*", line (\d+)[^\n]*\n(?:    (\S[^\n]*))?', re.MULTILINE)
_SYNTAX_LINE = re.compile(r"\(line (\d+)\)")


@dataclass(frozen=True)
class FailedTask:
    """A task with samples that failed alike: how many, and the index of the first."""

    task_id: str
    samples: int
    first: int


@dataclass(frozen=True)
class FailedLine:
    """Samples that failed with one message at one line, "" where the line is not known."""

    text: str
    alike: list[FailedSample]

    @property
    def samples(self) -> int:
        """How many they are."""
        return len(self.alike)

    @cached_property
    def tasks(self) -> list[FailedTask]:
        """Their tasks, of a line that is shown: a large run has tens of thousands of lines."""
        by_task = _grouped(self.alike, attrgetter("task_id"))
        return [FailedTask(task_id, len(of_task), of_task[0].number) for task_id, of_task in by_task]


@dataclass(frozen=True)
class Message:
    """Samples that failed with one message, "" for none; most frequent line first."""

    text: str
    samples: int
    tasks: int
    lines: list[FailedLine]


@dataclass(frozen=True)
class Cause:
    """All samples that did not pass for one cause; most frequent message first."""

    sign: VerdictSign
    samples: int
    tasks: int
    messages: list[Message]


def causes(session: Session, run_id: uuid.UUID) -> list[Cause]:
    """The causes, most frequent first; samples that did not finish come last."""
    samples = [s for s in _failed(session, run_id) if not is_finished(s) or s.verdict is not None]
    found = [
        Cause(sign, len(alike), _n_tasks(alike), _messages(sign, alike))
        for sign, alike in _grouped(samples, lambda s: verdict_sign(s.verdict, finished=is_finished(s)))
    ]
    return sorted(found, key=lambda cause: cause.sign is UNFINISHED)


def failed_line(sample: FailedSample) -> str:
    """The assertion of the test that failed, or else the line of the program at which it stopped."""
    if sample.failing_assert:
        return str(sample.failing_assert)
    if sample.verdict == Status.SYNTAX_ERROR:
        number = _SYNTAX_LINE.search(sample.verdict_detail or "")
        lines = (sample.broken_program or "").splitlines()
        return lines[int(number[1]) - 1].strip() if number and 0 < int(number[1]) <= len(lines) else ""
    frames = _FRAME.findall(sample.traceback or "")
    if not frames:
        return ""
    number, source = frames[-1]
    return source or f"line {number}"


def _failed(session: Session, run_id: uuid.UUID) -> Iterable[FailedSample]:
    broken = case((Sample.verdict == Status.SYNTAX_ERROR, Sample.program))
    return session.execute(
        select(
            Task.task_id,
            Sample.index.label("number"),
            Sample.verdict,
            Sample.finish_reason,
            Sample.finished_s,
            Sample.verdict_detail,
            Sample.failing_assert,
            Sample.traceback,
            broken.label("broken_program"),
        )
        .join(RunTask, RunTask.id == Sample.run_task_id)
        .join(Task, Task.id == RunTask.task_pk)
        .where(
            Sample.run_id == run_id,
            or_(
                Sample.verdict != PASSED,
                Sample.finish_reason.not_in(FINISHED_REASONS),
            ),
        )
        .order_by(RunTask.position, Sample.index)
    )


def _messages(sign: VerdictSign, samples: Sequence[FailedSample]) -> list[Message]:
    """Messages of what was judged; of samples that did not finish, the verdict does not count."""
    if sign is UNFINISHED:
        return [Message("", len(samples), _n_tasks(samples), [FailedLine("", list(samples))])]
    return [
        Message(
            text,
            len(alike),
            _n_tasks(alike),
            [FailedLine(*group) for group in _grouped(alike, lambda s: failed_line(s)[:LONGEST])],
        )
        for text, alike in _grouped(samples, lambda s: _first_line(s.verdict_detail or ""))
    ]


def _n_tasks(samples: Sequence[FailedSample]) -> int:
    return len({sample.task_id for sample in samples})


def _grouped(samples: Iterable[FailedSample], key: Callable[[FailedSample], K]) -> list[tuple[K, list[FailedSample]]]:
    """(key, its samples), most frequent first."""
    groups: dict[K, list[FailedSample]] = {}
    for sample in samples:
        groups.setdefault(key(sample), []).append(sample)
    return sorted(groups.items(), key=lambda group: -len(group[1]))


def _first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "")[:LONGEST]
