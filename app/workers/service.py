"""The workers table: each process writes that it lives, a page and the reaper read it."""

from __future__ import annotations

import datetime as dt
import os
import socket
import threading
from collections.abc import Sequence

import structlog
from sqlalchemy import select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from app import engines
from app.context import Context
from app.db import reason, utcnow
from app.workers.models import Worker

HEARTBEATS = 2  # of a job go by between two reports of its worker
ALIVE_S = 60.0  # a worker reports itself several times within this
FORGET_AFTER = dt.timedelta(days=1)
log = structlog.get_logger(__name__)


def list_workers(session: Session) -> Sequence[Worker]:
    """Workers seen within a day, the latest first. One not seen for a minute is presumed gone."""
    return session.scalars(
        select(Worker).where(Worker.last_seen_at >= utcnow() - FORGET_AFTER).order_by(Worker.last_seen_at.desc())
    ).all()


def is_alive(worker: Worker, now: dt.datetime) -> bool:
    """Heard of lately."""
    return (now - worker.last_seen_at).total_seconds() <= ALIVE_S


def report(ctx: Context) -> None:
    """Writes that this process lives, and which model it holds."""
    with ctx.database.session() as session:
        row = session.get(Worker, ctx.worker_name) or Worker(
            name=ctx.worker_name, host=socket.gethostname(), pid=os.getpid()
        )
        row.last_seen_at, row.model, row.device = utcnow(), engines.loaded_model(), engines.loaded_device()
        row.loading = engines.loading_model()
        session.add(row)


class Heartbeat:
    """Reports from a daemon thread until stopped."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="worker-heartbeat", daemon=True)

    def start(self) -> None:
        """Reports now and then regularly; a database that is away at the start is no reason to stay silent."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread and waits for it."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _beat(self) -> None:
        while True:
            try:
                report(self._ctx)
            except DBAPIError as error:
                log.warning("worker heartbeat failed", error=reason(error))
            if self._over.wait(HEARTBEATS * self._ctx.settings.heartbeat_s):
                return
