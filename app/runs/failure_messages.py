"""The samples of a run that did not pass, by cause, error message and task."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar

from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from app.datasets.models import Task
from app.runs.figures import is_finished
from app.runs.models import RunTask
from app.samples.models import Sample, has_failed
from app.web.ui.display import UNFINISHED, VerdictSign, choose_verdict_sign

LONGEST = 300  # characters of a message, which programs choose
MAX_SHOWN = {"messages": 15, "tasks": 24}  # of each cause and message; the rest is counted
FailedSample = Row[*tuple[Any, ...]]  # the columns that `_read_failed_samples` selects
K = TypeVar("K", bound=Hashable)


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
    """The causes, most frequent first; samples that did not finish come last."""
    samples = _read_failed_samples(session, run_id)
    found = [
        FailureCause(sign, len(alike), len({s.task_id for s in alike}), _group_by_message(sign, alike))
        for sign, alike in _group_by_key(samples, lambda s: choose_verdict_sign(s.verdict, finished=is_finished(s)))
    ]
    return sorted(found, key=lambda cause: cause.sign is UNFINISHED)


def _read_failed_samples(session: Session, run_id: uuid.UUID) -> Sequence[FailedSample]:
    query = (
        select(
            Task.task_id,
            Sample.index.label("number"),
            Sample.verdict,
            Sample.finish_reason,
            Sample.verdict_detail,
        )
        .join(RunTask, RunTask.id == Sample.run_task_id)
        .join(Task, Task.id == RunTask.task_pk)
        .where(
            Sample.run_id == run_id,
            has_failed(),
        )
        .order_by(RunTask.position, Sample.index)
    )
    return session.execute(query).all()


def _group_by_message(sign: VerdictSign, samples: Sequence[FailedSample]) -> list[FailureMessage]:
    """Messages of what was judged; of samples that did not finish, the verdict does not count."""
    judged = sign is not UNFINISHED
    return [
        FailureMessage(text, len(alike), _group_by_task(alike))
        for text, alike in _group_by_key(samples, lambda s: _get_first_line(s.verdict_detail or "") if judged else "")
    ]


def _group_by_task(samples: Sequence[FailedSample]) -> list[FailedTask]:
    by_task = _group_by_key(samples, attrgetter("task_id"))
    return [FailedTask(task_id, len(of_task), of_task[0].number) for task_id, of_task in by_task]


def _group_by_key(
    samples: Iterable[FailedSample], key: Callable[[FailedSample], K]
) -> list[tuple[K, list[FailedSample]]]:
    """(key, its samples), most frequent first."""
    groups: dict[K, list[FailedSample]] = {}
    for sample in samples:
        groups.setdefault(key(sample), []).append(sample)
    return sorted(groups.items(), key=lambda group: -len(group[1]))


def _get_first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "")[:LONGEST]
