"""Celery signals: a worker's processes log in our format, and a child process reports itself."""

from __future__ import annotations

import contextlib
import os

import structlog
from billiard import current_process
from celery.signals import (
    setup_logging,
    task_postrun,
    task_prerun,
    worker_process_init,
    worker_process_shutdown,
    worker_shutting_down,
)
from sqlalchemy.exc import SQLAlchemyError

from app.core.context import get_current


@setup_logging.connect
def _configure_logging(**_: object) -> None:
    # Being connected keeps Celery's own logging set-up away, in the parent and in its children alike.
    from app.core import observability  # noqa: PLC0415

    observability.configure(get_current().settings)
    if current_process().name != "MainProcess":
        observability.redirect_stdio_to_log(get_current().settings)


@task_prerun.connect
def _bind(task_id: str, args: tuple[object, ...], task: object, **_: object) -> None:
    structlog.contextvars.bind_contextvars(message=task_id, job=getattr(task, "name", None), row=next(iter(args), None))


@task_postrun.connect
def _unbind(**_: object) -> None:
    structlog.contextvars.unbind_contextvars("message", "job", "row")


@worker_process_init.connect
def _start_heartbeat(sender: str | None = None, **_: object) -> None:
    from app import domains  # noqa: PLC0415
    from app.workers.service import QUEUES_VARIABLE, make_heartbeat_thread  # noqa: PLC0415

    assert domains.metadata.tables  # every mapper must be known before the first query, of whichever thread
    consumed = os.environ.get(QUEUES_VARIABLE)
    names = consumed.split(",") if consumed else None
    make_heartbeat_thread(get_current(), sender, names).start()


@worker_shutting_down.connect
def _on_stop_request(sender: str, **_: object) -> None:
    from app.workers.service import report_stop  # noqa: PLC0415

    with contextlib.suppress(SQLAlchemyError):  # its heartbeat ends with its last task
        report_stop(get_current(), sender)


@worker_process_shutdown.connect
def _report_stop(**_: object) -> None:
    from app.workers.service import report_stop  # noqa: PLC0415

    with contextlib.suppress(SQLAlchemyError):  # it then counts as a crash
        report_stop(get_current())
