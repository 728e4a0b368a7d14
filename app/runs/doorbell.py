"""Broker messages that say "there is work": sent after COMMIT, harmless when lost or sent twice."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from app import queues
from app.celery_app import celery_app
from app.states import RunKind


def ring_prepare(run_id: uuid.UUID) -> None:
    """Asks for a run to be checked and its tasks handed out."""
    _ring(queues.PREPARE_RUN, [run_id], queues.EXEC)


def ring_decode(run_task_ids: Iterable[uuid.UUID], queue: str) -> None:
    """Asks for tasks to be decoded, in this order; `queue` is queues.GPU_INTERACTIVE or GPU_BATCH."""
    _ring(queues.DECODE_TASK, run_task_ids, queue)


def ring_grade(run_task_ids: Iterable[uuid.UUID]) -> None:
    """Asks for decoded tasks to be graded."""
    _ring(queues.GRADE_TASK, run_task_ids, queues.EXEC)


def gpu_queue(kind: RunKind) -> str:
    """Where a run's tasks are decoded: someone waits for a completion, nobody for a batch."""
    return queues.GPU_INTERACTIVE if kind is RunKind.COMPLETE else queues.GPU_BATCH


def _ring(task: str, ids: Iterable[uuid.UUID], queue: str) -> None:
    with celery_app.connection_for_write() as connection:
        for row_id in ids:
            celery_app.send_task(task, args=[str(row_id)], queue=queue, connection=connection)
