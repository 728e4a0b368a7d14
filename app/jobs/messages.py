"""What a worker does with each message, embedded or by Celery."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping

from app.background.work import handle_message
from app.core.broker import queues
from app.core.context import Context
from app.jobs.work.decode import decode_task
from app.jobs.work.grade import grade_task
from app.jobs.work.prepare import prepare_run

MESSAGE_HANDLERS: Mapping[str, Callable[[Context, uuid.UUID], None]] = {
    queues.PREPARE_RUN: prepare_run,
    queues.DECODE_TASK: decode_task,
    queues.GRADE_TASK: grade_task,
    queues.WORK_JOB: handle_message,
}
