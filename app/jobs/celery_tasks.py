"""Celery's entry points: each calls one function with the process's context. Slow imports are inside the bodies."""

from __future__ import annotations

import uuid

from celery import shared_task

from app.broker import queues
from app.context import current
from app.db.database import OUTAGES


@shared_task(name=queues.PREPARE_RUN)
def prepare(run_id: str) -> None:
    """Checks the sandbox and the dataset, then enqueues the run's tasks."""
    from app.jobs.work.prepare import prepare_run  # noqa: PLC0415

    prepare_run(current(), uuid.UUID(run_id))


@shared_task(name=queues.DECODE_TASK)
def decode(run_task_id: str) -> None:
    """Decodes the samples of one task."""
    from app.jobs.work.decode import decode_task  # noqa: PLC0415

    decode_task(current(), uuid.UUID(run_task_id))


@shared_task(name=queues.GRADE_TASK)
def grade(run_task_id: str) -> None:
    """Grades the samples of one task."""
    from app.jobs.work.grade import grade_task  # noqa: PLC0415

    grade_task(current(), uuid.UUID(run_task_id))


@shared_task(name=queues.REAP, throws=OUTAGES)
def reap() -> None:
    """Returns lost jobs to their queues."""
    from app.jobs.reaper import reap as sweep  # noqa: PLC0415

    sweep(current())


@shared_task(name=queues.SWEEP, throws=OUTAGES)
def sweep() -> None:
    """Deletes data past its time."""
    from app.jobs.retention import sweep as delete_old  # noqa: PLC0415

    delete_old(current())
