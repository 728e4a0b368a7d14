"""Broker and workers inside this process, as threads: one for the GPU queues, one for the sandbox queues.

Messages die with the process, which does no harm: the next start enqueues every unfinished row again.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import Self

import structlog

from app.core.broker import queues
from app.core.broker.broker import MemoryBroker
from app.core.context import Context
from app.core.db import migrate
from app.core.db.database import log_failure
from app.core.db.threads import RepeatingThread
from app.jobs import reaper
from app.jobs.database_lock import DatabaseLock
from app.jobs.messages import MESSAGE_HANDLERS
from app.workers.service import make_heartbeat_thread

POLL_S = 0.25  # after which a waiting worker notices that the process stops
STOP_S = 60.0
HANDOVER_S = 1.0  # between looks for runs that another process handed over


class EmbeddedWorkers:
    """Workers in this process, as a context manager: inside, enqueued runs are processed.

    `purpose` is the command, for the error that another process gets. `pinned_only` is for a process that works only
    runs pinned to itself (`bassline eval`): it leaves all others waiting.
    """

    def __init__(self, ctx: Context, purpose: str, *, pinned_only: bool = False) -> None:
        self._ctx = ctx
        self._lock = DatabaseLock(ctx.database.file, purpose)
        self._broker = MemoryBroker()
        self._heartbeat = make_heartbeat_thread(ctx)
        self._threads = [
            RepeatingThread("worker-gpu", partial(self._process_messages, queues.GPU), retry_s=POLL_S),
            RepeatingThread("worker-exec", partial(self._process_messages, queues.SANDBOX), retry_s=POLL_S),
            reaper.make_reaper_thread(ctx, pinned_only=pinned_only),
        ]
        if not pinned_only:
            self._threads.append(RepeatingThread("handover", self._enqueue_handed_over, retry_s=HANDOVER_S))

    def __enter__(self) -> Self:
        self._lock.acquire()
        try:
            migrate.ensure_newest_schema(self._ctx.database)
            if self._ctx.database.is_sqlite:
                reaper.reset_orphans(self._ctx)
        except BaseException:
            self._lock.release()
            raise
        self._ctx.broker = self._broker  # also where the settings name Redis: no other process works these runs
        self._heartbeat.start()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Returns running jobs (within a second), ends the threads and frees the database."""
        self._ctx.stopping.set()
        for thread in self._threads:
            thread.stop(STOP_S)
        self._heartbeat.stop()
        self._lock.release()

    def _process_messages(self, names: Sequence[str]) -> None:
        """Processes the messages of these queues until the process stops; earlier queues go first."""
        while not self._ctx.stopping.is_set():
            message = self._broker.get(names, POLL_S)
            if message is not None:
                self._handle(*message)
        self._ctx.engines.drop()

    def _handle(self, task: str, row_id: uuid.UUID) -> None:
        with structlog.contextvars.bound_contextvars(job=task, row=str(row_id)):
            try:
                MESSAGE_HANDLERS[task](self._ctx, row_id)
            except Exception as error:
                log_failure("message failed; the reaper recovers its row", error)

    def _enqueue_handed_over(self) -> float | None:
        if self._ctx.stopping.is_set():
            return None
        reaper.enqueue_handed_over(self._ctx)
        return HANDOVER_S
