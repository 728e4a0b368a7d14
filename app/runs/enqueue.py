"""Broker messages that say "there is work". Send them with `call_after_commit`; a lost or repeated one does no harm."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from app.core.broker import queues
from app.core.context import Context
from app.core.states import WorkStep

_TASKS = {WorkStep.DECODE: queues.DECODE_TASK, WorkStep.GRADE: queues.GRADE_TASK}


def enqueue_preparation(ctx: Context, run_id: uuid.UUID) -> None:
    """Asks a sandbox worker to prepare a run, ahead of all waiting grading: the run gets no turns before that."""
    ctx.broker.send([(queues.PREPARE_RUN, run_id)], queues.EXEC_INTERACTIVE)


def enqueue_jobs(ctx: Context, step: WorkStep, run_task_ids: Iterable[uuid.UUID], queue: str) -> None:
    """Asks for a step of these jobs, in this order."""
    ctx.broker.send([(_TASKS[step], row_id) for row_id in run_task_ids], queue)
