"""The samples of a run that did not pass, by cause, error message and the line that failed."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, case, or_, select
from sqlalchemy.orm import Session

from app.datasets.models import Task
from app.runs.figures import FINISHED_REASONS, in_budget_s
from app.runs.models import RunTask
from app.samples.models import Sample
from app.states import PASSED
from app.ui.display import UNFINISHED, VerdictSign, verdict_sign
from evaluation.verdicts import Status

LONGEST = 300  # characters of a message or line, which programs choose
SHOWN = {"messages": 15, "lines": 8, "tasks": 12}  # of each cause, message and line; the rest is counted
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
    samples: int
    tasks: list[FailedTask]


@dataclass(frozen=True)
class Message:
    """Samples that failed with one message, "" for none; most frequent line first."""

    text: str
    samples: int
    tasks: int
    lines: list[FailedLine]

    @property
    def query(self) -> str | None:
        """What the page Search finds the message with, if it can."""
        return f'"{self.text}"' if re.search(r"\w", self.text) and '"' not in self.text else None


@dataclass(frozen=True)
class Cause:
    """All samples that did not pass for one cause; most frequent message first."""

    sign: VerdictSign
    samples: int
    tasks: int
    messages: list[Message]


def causes(session: Session, run_id: uuid.UUID) -> list[Cause]:
    """The causes, most frequent first; samples that did not finish come last."""
    by_sign: dict[VerdictSign, list[Row[*tuple[Any, ...]]]] = {}
    for sample in _failed(session, run_id):
        finished_s = in_budget_s(sample)
        if finished_s is None or sample.verdict is not None:
            by_sign.setdefault(verdict_sign(sample.verdict, finished_s), []).append(sample)
    found = [
        Cause(sign, len(samples), _n_tasks(samples), _messages(sign, samples)) for sign, samples in by_sign.items()
    ]
    return sorted(found, key=lambda cause: (cause.sign is UNFINISHED, -cause.samples))


def failed_line(sample: Row[*tuple[Any, ...]]) -> str:
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


def _failed(session: Session, run_id: uuid.UUID) -> Iterable[Row[*tuple[Any, ...]]]:
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
                Sample.finished_s.is_(None),
            ),
        )
        .order_by(RunTask.position, Sample.index)
    )


def _messages(sign: VerdictSign, samples: Sequence[Row[*tuple[Any, ...]]]) -> list[Message]:
    """Messages of what was judged; of samples that did not finish, the verdict does not count."""
    alike: dict[str, dict[str, list[Row[*tuple[Any, ...]]]]] = {}
    for sample in samples:
        judged = sign is not UNFINISHED
        message = _first_line(sample.verdict_detail or "") if judged else ""
        line = failed_line(sample)[:LONGEST] if judged else ""
        alike.setdefault(message, {}).setdefault(line, []).append(sample)
    found = [_message(text, lines) for text, lines in alike.items()]
    return sorted(found, key=lambda message: -message.samples)


def _message(text: str, lines: Mapping[str, list[Row[*tuple[Any, ...]]]]) -> Message:
    together = [sample for samples in lines.values() for sample in samples]
    found = [FailedLine(line, len(samples), _tasks(samples)) for line, samples in lines.items()]
    return Message(text, len(together), _n_tasks(together), sorted(found, key=lambda line: -line.samples))


def _tasks(samples: Sequence[Row[*tuple[Any, ...]]]) -> list[FailedTask]:
    firsts: dict[str, int] = {}
    for sample in samples:
        firsts.setdefault(sample.task_id, sample.number)
    counts = Counter(sample.task_id for sample in samples)
    return [FailedTask(task_id, number, firsts[task_id]) for task_id, number in counts.most_common()]


def _n_tasks(samples: Sequence[Row[*tuple[Any, ...]]]) -> int:
    return len({sample.task_id for sample in samples})


def _first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "")[:LONGEST]
