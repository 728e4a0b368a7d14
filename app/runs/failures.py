"""The samples that did not pass: how they ended and what would help, and their causes, messages and tasks."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import case, func, or_, select
from sqlalchemy.orm import Session

from app.core.states import PASSED, SANDBOX_ERROR
from app.datasets.models import Task
from app.runs.figures import is_finished
from app.runs.models import RunTask
from app.samples.models import FINISHED_REASONS, Sample, has_failed
from app.web.ui.display import UNFINISHED, VerdictSign, choose_verdict_sign
from app.web.ui.units import format_count, format_integer

LONGEST = 300  # characters of a message, which programs choose
MAX_SHOWN = {"messages": 15, "tasks": 24}  # of each cause and message; the rest is counted
MANY = 0.5
"""The share of the failed samples that must have ended alike for a remedy against that to be worth a sentence."""


@dataclass(frozen=True, slots=True)
class FailureCounts:
    """The samples of some runs that did not pass, by how they ended. Left out are finished samples without a verdict
    of the sandbox, and samples that a cancellation or a fault ended."""

    samples: int  # judged or cut off, passed ones too
    cut: int  # by the deadline
    at_limit: int  # at the token limit, and wrong
    stopped: int  # by themselves, and wrong

    @property
    def failed(self) -> int:
        """All that did not pass."""
        return self.cut + self.at_limit + self.stopped

    @property
    def in_words(self) -> str:
        """How they ended: `57 of 80 samples failed: 50 stopped by themselves and are wrong, 7 were cut off ...`."""
        ends = (
            (self.stopped, "stopped by itself and is wrong", "stopped by themselves and are wrong"),
            (self.cut, "was cut off by the deadline", "were cut off by the deadline"),
            (self.at_limit, "reached the token limit and is wrong", "reached the token limit and are wrong"),
        )
        parts = [
            f"{format_integer(number)} {one if number == 1 else several}"
            for number, one, several in sorted(ends, reverse=True)
            if number
        ]
        if not parts:
            return "no sample failed"
        return f"{format_integer(self.failed)} of {format_count(self.samples, 'sample')} failed: {', '.join(parts)}"

    @property
    def remedy(self) -> str:
        """What to try next, by what ended most of them."""
        if self.failed and self.cut >= MANY * self.failed:
            return "give a larger budget, or use a faster model or drafter"
        if self.failed and self.at_limit >= MANY * self.failed:
            return "allow more tokens per sample (--max-tokens)"
        return "use a stronger model, or more samples per task; a larger budget would not help those"

    @property
    def advice(self) -> str:
        """`in_words` and `remedy` in a sentence; "" if none failed."""
        return f"{self.in_words}: {self.remedy}." if self.failed else ""


def count_failed_samples(session: Session, run_ids: Collection[uuid.UUID]) -> FailureCounts:
    """The samples of these runs that did not pass."""
    is_cut, passed = Sample.finish_reason == "deadline", Sample.verdict == PASSED
    judged = Sample.verdict.is_not(None) & (Sample.verdict != SANDBOX_ERROR)
    end = case((is_cut, "cut"), (passed, "passed"), else_=Sample.finish_reason)
    rows = session.execute(
        select(end, func.count())
        .where(
            Sample.run_id.in_(run_ids), or_(is_cut, judged), Sample.finish_reason.in_(("deadline", *FINISHED_REASONS))
        )
        .group_by(end)
    ).all()
    numbers: dict[str, int] = dict(rows)
    ends = (numbers.get(reason, 0) for reason in ("cut", "length", "stop"))
    return FailureCounts(sum(numbers.values()), *ends)


@dataclass(frozen=True)
class FailedTask:
    """A task with samples that failed alike: how many, and the index of the first."""

    task_id: str
    samples: int
    first: int


@dataclass(frozen=True)
class FailureMessage:
    """Samples that failed with one message, "" for none; the task with the most of them first."""

    text: str
    samples: int
    tasks: list[FailedTask]


@dataclass(frozen=True)
class FailureCause:
    """All samples that did not pass for one cause; most frequent message first."""

    sign: VerdictSign
    samples: int
    tasks: int
    messages: list[FailureMessage]


def find_causes(session: Session, run_id: uuid.UUID) -> list[FailureCause]:
    """The causes, most frequent first; samples that did not finish come last, and their verdicts do not count."""
    query = (
        select(Task.task_id, Sample.index.label("number"), Sample.verdict, Sample.finish_reason, Sample.verdict_detail)
        .join(RunTask, RunTask.id == Sample.run_task_id)
        .join(Task, Task.id == RunTask.task_pk)
        .where(Sample.run_id == run_id, has_failed())
        .order_by(RunTask.position, Sample.index)
    )
    first: dict[tuple[VerdictSign, str, str], int] = {}  # the first sample of a task with a cause and message
    counts: Counter[tuple[VerdictSign, str, str]] = Counter()
    for row in session.execute(query):
        sign = choose_verdict_sign(row.verdict, finished=is_finished(row))
        lines = (row.verdict_detail or "").strip().splitlines() if sign is not UNFINISHED else ()
        key = sign, next(iter(lines), "")[:LONGEST], row.task_id
        first.setdefault(key, row.number)
        counts[key] += 1
    grouped: defaultdict[VerdictSign, defaultdict[str, list[FailedTask]]] = defaultdict(lambda: defaultdict(list))
    for (sign, text, task_id), samples in counts.most_common():
        grouped[sign][text].append(FailedTask(task_id, samples, first[sign, text, task_id]))
    causes = []
    for sign, tasks_of in grouped.items():
        messages = [FailureMessage(text, sum(t.samples for t in tasks), tasks) for text, tasks in tasks_of.items()]
        n_tasks = len({task.task_id for message in messages for task in message.tasks})
        messages.sort(key=lambda message: -message.samples)
        causes.append(FailureCause(sign, sum(message.samples for message in messages), n_tasks, messages))
    return sorted(causes, key=lambda cause: (cause.sign is UNFINISHED, -cause.samples))
