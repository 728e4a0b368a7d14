"""Broker messages that say "there is work". Send them with `after_commit`; a lost or repeated one does no harm."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable

from sqlalchemy import ColumnElement, and_, true

from app.broker import queues
from app.broker.model_queues import ModelQueue
from app.context import Context
from app.runs import routing
from app.runs.models import Run, RunTask
from app.states import RunKind, TaskState


def prepare(ctx: Context, run_id: uuid.UUID) -> None:
    """Asks for a run to be prepared, before any grading that waits: its turns begin then."""
    ctx.broker.send([(queues.PREPARE_RUN, run_id)], queues.EXEC_INTERACTIVE)


def decode(ctx: Context, run_task_ids: Iterable[uuid.UUID], kind: RunKind) -> None:
    """Asks for tasks of a run to be decoded, in this order; those of a completion by a worker that has its model."""
    ids = list(run_task_ids)
    queue = routing.queue_for(ctx, ids) if kind is RunKind.COMPLETION else queues.GPU_BATCH
    ctx.broker.send([(queues.DECODE_TASK, row_id) for row_id in ids], queue)


def grade(ctx: Context, run_task_ids: Iterable[uuid.UUID], kind: RunKind) -> None:
    """Asks for decoded tasks of a run to be graded."""
    queue = queues.EXEC_INTERACTIVE if kind is RunKind.COMPLETION else queues.EXEC
    ctx.broker.send([(queues.GRADE_TASK, row_id) for row_id in run_task_ids], queue)


def waits_in(queue: str, live: Collection[ModelQueue]) -> ColumnElement[bool]:
    """Whether a job waits for a message in this queue, as a condition over RunTask joined with Run.

    `live` are the queues of models that live workers consume.
    """
    graded = queue in (queues.EXEC_INTERACTIVE, queues.EXEC)
    interactive = queue not in (queues.GPU_BATCH, queues.EXEC)
    return and_(
        RunTask.state == (TaskState.DECODED if graded else TaskState.QUEUED),
        Run.kind == RunKind.COMPLETION if interactive else Run.kind != RunKind.COMPLETION,
        routing.goes_to(queue, live) if interactive and not graded else true(),
    )
