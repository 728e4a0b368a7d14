"""Broker and workers inside this process: Celery on `memory://` with its worker controllers as threads.

SQLite has one owner: a lock file beside the database keeps a second such process out. Messages die with the process,
which does no harm, since every unfinished row is rung for again at the next start.
"""

from __future__ import annotations

import fcntl
import math
import os
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import structlog
from celery.worker import WorkController

from app.broker import queues
from app.broker.celery_app import SWEEP_S, celery_app, configure
from app.context import Context, install
from app.db import migrate
from app.errors import Unavailable
from app.jobs import reaper, retention
from app.workers.service import Heartbeat

START_S = 30.0
STOP_S = 60.0
HANDED_OVER_S = 1.0  # between looks for runs that another process left for this one
SERVE = "serve"
log = structlog.get_logger(__name__)


class InUse(Unavailable):
    """Another process has the database; `by_server` says whether it is one that works every run (`bassline serve`)."""

    def __init__(self, message: str, *, by_server: bool) -> None:
        super().__init__(message)
        self.by_server = by_server


class DatabaseLock:
    """The right to work jobs of a SQLite database, held for the life of a process. A server database needs none."""

    def __init__(self, database_file: Path | None, purpose: str) -> None:
        self._database = database_file
        self._path = database_file.with_suffix(".lock") if database_file else None
        self._purpose = purpose
        self._file: IO[str] | None = None

    def acquire(self) -> None:
        """Takes the lock. Raises InUse naming the process that has it."""
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = self._path.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            owner = self.owner()
            raise InUse(
                f"{self._database} is in use by {owner or 'another process'}: stop that first, or set "
                "BASSLINE_DATABASE_URL to another database",
                by_server=owner.startswith(f"bassline {SERVE} "),
            ) from None
        file.truncate(0)
        file.write(f"bassline {self._purpose} (process {os.getpid()})")
        file.flush()
        self._file = file

    def owner(self) -> str:
        """The process that has the lock, in words; empty if it has let go of it."""
        return self._path.read_text().strip() if self._path and self._path.exists() else ""

    def release(self) -> None:
        """Gives the lock back."""
        if self._file is not None:
            self._file.truncate(0)
            self._file.close()
            self._file = None


class _Controller(WorkController):
    """Celery's worker without its command line and signal handlers; `ready` is set when it consumes."""

    def __init__(self, **kwargs: Any) -> None:
        self.ready = threading.Event()
        super().__init__(**kwargs)

    def on_consumer_ready(self, consumer: object) -> None:
        """Called by Celery when messages can come in."""
        self.ready.set()


class Embedded:
    """Workers in this process. Use as a context manager; inside, runs that are rung for get worked.

    `purpose` is the command, for the sentence another process is refused with. `foreground` is for a process that
    works only runs pinned to itself (`bassline eval`): it leaves all others waiting.
    """

    def __init__(self, ctx: Context, purpose: str, *, foreground: bool = False) -> None:
        self._ctx = ctx
        self._foreground = foreground
        self._lock = DatabaseLock(ctx.database.file, purpose)
        self._controllers: list[tuple[_Controller, threading.Thread]] = []
        self._heartbeat = Heartbeat(ctx)
        self._reaper = threading.Thread(target=self._reap, name="reaper", daemon=True)

    def __enter__(self) -> Self:
        self._lock.acquire()
        try:
            migrate.ensure(self._ctx.database)
            install(self._ctx)
            configure(self._ctx.settings, in_process=True)
            if self._ctx.database.is_sqlite:
                reaper.reset_orphans(self._ctx)
            # One after the other: each sets the app-wide list of consumed queues while it starts.
            self._start("gpu", queues.GPU, "solo", 1)
            self._start("exec", queues.SANDBOX, "threads", 1)
            self._heartbeat.start()
            self._reaper.start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _start(self, name: str, consumed: tuple[str, ...], pool: str, concurrency: int) -> None:
        controller = _Controller(
            app=celery_app,
            hostname=f"{name}@{self._ctx.worker_name}",
            queues=list(consumed),
            pool_cls=pool,
            concurrency=concurrency,
            loglevel="WARNING",
            without_heartbeat=True,
            without_mingle=True,
            without_gossip=True,
        )
        thread = threading.Thread(target=controller.start, name=f"worker-{name}", daemon=True)
        thread.start()
        self._controllers.append((controller, thread))
        if not controller.ready.wait(START_S):
            raise Unavailable(f"the {name} worker did not start within {START_S:g} seconds: see the log")

    def _reap(self) -> None:
        # At once, for what the last process left; then at intervals.
        swept = -math.inf
        while True:
            try:
                reaper.reap(self._ctx, pinned_only=self._foreground)
                if time.monotonic() - swept > SWEEP_S:
                    retention.sweep(self._ctx)
                    swept = time.monotonic()
            except Exception:
                log.exception("reaper failed")
            swept = time.monotonic()
            while (left := swept + self._ctx.settings.reap_interval_s - time.monotonic()) > 0:
                if self._ctx.stopping.wait(min(left, HANDED_OVER_S)):
                    return
                self._welcome()

    def _welcome(self) -> None:
        """Rings for runs that another process has submitted, whose bells nobody hears here."""
        if self._foreground:
            return
        try:
            reaper.ring_handed_over(self._ctx)
        except Exception:
            log.exception("looking for submitted runs failed")

    def _stop(self) -> None:
        """Puts running jobs down (within a second), ends the threads and frees the database."""
        self._ctx.stopping.set()
        # All at once: each waits for its consumer to come round.
        stops = [threading.Thread(target=_stop, args=(c,), daemon=True) for c, _ in self._controllers]
        for stop in stops:
            stop.start()
        for thread in (*stops, *(t for _, t in self._controllers)):
            thread.join(STOP_S)
        self._heartbeat.stop()
        if self._reaper.is_alive():
            self._reaper.join(STOP_S)
        self._lock.release()


def _stop(controller: WorkController) -> None:
    try:
        controller.stop()
    except Exception:
        log.exception("a worker did not stop cleanly")
