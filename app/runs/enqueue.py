"""Broker messages that say "there is work": sent after COMMIT, harmless when lost or sent twice."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

import structlog
from kombu.exceptions import OperationalError
from kombu.pools import producers
from redis.exceptions import RedisError
from sqlalchemy import ColumnElement, and_, false

from app.broker import queues
from app.broker.celery_app import celery_app
from app.runs.models import Run, RunTask
from app.states import RunKind, TaskState

AWAY = (OperationalError, RedisError, OSError)
log = structlog.get_logger(__name__)


def ring_prepare(run_id: uuid.UUID) -> None:
    """Asks for a run to be checked and its tasks handed out, before any grading that waits: its turns begin then."""
    ring([(queues.PREPARE_RUN, run_id)], queues.EXEC_INTERACTIVE)


def ring_decode(run_task_ids: Iterable[uuid.UUID], kind: RunKind) -> None:
    """Asks for tasks of a run to be decoded, in this order."""
    ring([(queues.DECODE_TASK, row_id) for row_id in run_task_ids], gpu_queue(kind))


def ring_grade(run_task_ids: Iterable[uuid.UUID], kind: RunKind) -> None:
    """Asks for decoded tasks of a run to be graded."""
    ring([(queues.GRADE_TASK, row_id) for row_id in run_task_ids], exec_queue(kind))


def gpu_queue(kind: RunKind) -> str:
    """Where a run's tasks are decoded: someone waits for a completion, nobody for a batch."""
    return queues.GPU_INTERACTIVE if kind is RunKind.COMPLETION else queues.GPU_BATCH


def exec_queue(kind: RunKind) -> str:
    """Where a run is graded, for the same reason."""
    return queues.EXEC_INTERACTIVE if kind is RunKind.COMPLETION else queues.EXEC


def rings_in(queue: str) -> ColumnElement[bool]:
    """Whether a waiting task's bell belongs in this queue, as a condition over RunTask joined with Run."""
    if queue not in (*queues.GPU, queues.EXEC_INTERACTIVE, queues.EXEC):
        return false()
    waiting = TaskState.QUEUED if queue in queues.GPU else TaskState.DECODED
    return and_(RunTask.state == waiting, of_kind(queue))


def of_kind(queue: str) -> ColumnElement[bool]:
    """Whether a run's bells ring in the interactive or the other kind of queue."""
    interactive = queue in (queues.GPU_INTERACTIVE, queues.EXEC_INTERACTIVE)
    return Run.kind == RunKind.COMPLETION if interactive else Run.kind != RunKind.COMPLETION


def ring(bells: Iterable[tuple[str, uuid.UUID]], queue: str) -> None:
    """Sends (Celery task, row id) messages, in this order. If the broker is away, the reaper rings again later."""
    try:
        with producers[celery_app.connection_for_write()].acquire(block=True) as producer:
            for task, row_id in bells:
                celery_app.send_task(task, args=[str(row_id)], queue=queue, producer=producer)
    except AWAY as error:
        log.warning("the broker is away; the reaper rings again", queue=queue, error=str(error))


def messages(queue: str) -> int | None:
    """How many messages wait in a queue; None when the broker is away."""
    try:
        with celery_app.connection_for_write() as connection:
            connection.ensure_connection(max_retries=1, timeout=1)
            channel: Any = connection.default_channel
            # Not passive: kombu 5.7 looks for the queue without our key prefix then, and finds none.
            return int(channel.queue_declare(queue).message_count)
    except AWAY:
        return None
