"""Celery's entry points: each calls one function with the process's context and the id of a row."""

from __future__ import annotations

import uuid
from typing import Any

from celery import shared_task
from celery.signals import worker_process_init

from app.core.broker import queues
from app.core.context import get_current


def _handle(task: Any, row_id: str) -> None:
    from app.jobs.messages import MESSAGE_HANDLERS  # noqa: PLC0415 (slow to import)

    MESSAGE_HANDLERS[task.name](get_current(), uuid.UUID(row_id))


TASKS = {
    name: shared_task(bind=True, name=name)(_handle)
    for name in (queues.PREPARE_RUN, queues.DECODE_TASK, queues.GRADE_TASK, queues.WORK_JOB)
}


@worker_process_init.connect
def _preload_modules(**_: object) -> None:
    """Now, so that the time limit of the first job does not cover it."""
    import app.domains  # noqa: F401, PLC0415 (registers what is loaded here)
    from app.background.handlers import get_handler  # noqa: PLC0415
    from app.jobs import messages  # noqa: F401, PLC0415
    from app.runs.policy import list_policies  # noqa: PLC0415

    list_policies()
    get_handler("")
