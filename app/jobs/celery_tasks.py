"""Celery's entry points: each calls one function with the process's context and the id of a row."""

from __future__ import annotations

import uuid

from celery import shared_task
from celery.signals import worker_process_init

from app.core.broker import queues
from app.core.context import get_current


@shared_task(name=queues.PREPARE_RUN)
def prepare(run_id: str) -> None:
    """Checks the sandbox and the dataset, then enqueues the run's tasks."""
    _handle(queues.PREPARE_RUN, run_id)


@shared_task(name=queues.DECODE_TASK)
def decode(run_task_id: str) -> None:
    """Decodes what has the next turn."""
    _handle(queues.DECODE_TASK, run_task_id)


@shared_task(name=queues.GRADE_TASK)
def grade(run_task_id: str) -> None:
    """Grades the samples of one task."""
    _handle(queues.GRADE_TASK, run_task_id)


@shared_task(name=queues.WORK_JOB)
def run_background_job(job_id: str) -> None:
    """Does a background job for a turn."""
    _handle(queues.WORK_JOB, job_id)


@worker_process_init.connect
def _preload_modules(**_: object) -> None:
    """Now, so that the time limit of the first job does not cover it."""
    import app.domains  # noqa: F401, PLC0415 (registers what is loaded here)
    from app.background.handlers import get_handler  # noqa: PLC0415
    from app.jobs import messages  # noqa: F401, PLC0415
    from app.runs.policy import list_policies  # noqa: PLC0415

    list_policies()
    get_handler("")


def _handle(task: str, row_id: str) -> None:
    from app.jobs.messages import MESSAGE_HANDLERS  # noqa: PLC0415 (slow to import)

    MESSAGE_HANDLERS[task](get_current(), uuid.UUID(row_id))
