"""Keeping a claimed job: a heartbeat extends the lease, and tells the work when it is no longer wanted."""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

import structlog
from sqlalchemy import select, update
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from app.context import Context
from app.db.database import error_summary, updated_any
from app.db.types import utcnow
from app.jobs.claims import Claim, LostClaim, lease_end
from app.runs.models import Run, RunTask
from app.states import RunState

WATCH_S = 0.5
TRY_AGAIN_S = 0.25
log = structlog.get_logger(__name__)


class Stop(enum.StrEnum):
    """Why a worker should put a job down."""

    FENCED = "fenced"  # another worker has it, or we could not prove that we are alive
    INTERRUPTED = "interrupted"  # the run stopped: give the job back
    CANCELLED = "cancelled"  # the user wants no more of it: keep what there is


class Lease:
    """Keeps a claim alive while inside: extends the lease and watches whether the work is still wanted."""

    def __init__(self, ctx: Context, held: Claim) -> None:
        self._ctx, self._held = ctx, held
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"lease-{held.run_task_id}", daemon=True)
        self._stop: Stop | None = None
        self._proven = time.monotonic()

    @property
    def stop(self) -> Stop | None:
        """None as long as the work is wanted. Reading it costs nothing, so an engine may ask before every round."""
        # Asked here and not by the heartbeat, which may hang in a dead connection or have been stopped with us.
        if self._stop is None and time.monotonic() - self._proven >= self._ctx.settings.lease_s:
            self._stop = Stop.FENCED
        return self._stop

    def store(self, write: Callable[[], None]) -> None:
        """Does the unit of work `write`, and again while the database is away, for as long as a lease lasts.

        What took minutes to compute must not be lost to a restart of the database. Raises LostClaim once the lease is
        lost, or what the database says after that time.
        """
        limit = time.monotonic() + self._ctx.settings.lease_s
        while True:
            if self.stop is Stop.FENCED:
                raise LostClaim(str(self._held.run_task_id))
            try:
                return write()
            except (OperationalError, InterfaceError) as error:
                if time.monotonic() >= limit:
                    raise
                log.warning("storing failed", run_task=str(self._held.run_task_id), error=error_summary(error))
                time.sleep(TRY_AGAIN_S)

    def begin(self) -> None:
        """Starts the heartbeat."""
        self._thread.start()

    def end(self) -> None:
        """Ends the heartbeat; the job, if it is still ours, is lost when the lease runs out."""
        self._over.set()
        self._thread.join()

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def _watch(self) -> None:
        settings = self._ctx.settings
        beaten = self._proven
        while not self._over.wait(min(WATCH_S, settings.heartbeat_s)):
            now = time.monotonic()
            try:
                if now - beaten >= settings.heartbeat_s:
                    if not self._beat():
                        self._stop = Stop.FENCED
                        return
                    beaten = self._proven = now
                found = Stop.INTERRUPTED if self._ctx.stopping.is_set() else self._wanted()
            except DBAPIError as error:
                log.warning("heartbeat failed", run_task=str(self._held.run_task_id), error=error_summary(error))
                found = None
            self._stop = self.stop or found
            if self._stop:
                return

    def _beat(self) -> bool:
        with self._ctx.database.session() as session:
            return updated_any(
                session,
                update(RunTask)
                .where(RunTask.id == self._held.run_task_id, RunTask.attempt_token == self._held.token)
                .values(lease_until=lease_end(self._ctx, utcnow())),
            )

    def _wanted(self) -> Stop | None:
        with self._ctx.database.read() as session:
            found = session.execute(
                select(Run.state, Run.cancel_requested_at).where(Run.id == self._held.run_id)
            ).one_or_none()
        if found is None:
            return Stop.FENCED  # the run was deleted
        state, cancelled_at = found
        if cancelled_at is not None:
            return Stop.CANCELLED
        return None if state == RunState.RUNNING else Stop.INTERRUPTED
