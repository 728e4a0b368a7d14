"""Keeping a claimed job: a heartbeat extends the lease and notices when the work is no longer wanted."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable

import structlog
from sqlalchemy import select, update

from app.context import Context
from app.db.clock import database_time
from app.db.database import OUTAGES, error_summary, updated_any
from app.db.threads import RepeatingThread
from app.jobs.claims import Claim, LostClaimError
from app.runs.models import Run, RunTask
from app.states import RunState

WATCH_S = 0.5
TRY_AGAIN_S = 0.25
BEATS = 5  # heartbeats within a shortened lease, at least
LONGEST_BEAT_S = 1.0  # between them: a client that waits at the end of a budget must see that the worker lives
log = structlog.get_logger(__name__)


class Stop(enum.StrEnum):
    """Why a worker should stop working on a job."""

    FENCED = "fenced"  # another worker has it, or we could not prove that we are alive
    INTERRUPTED = "interrupted"  # the run or this process stops: return the job
    CANCELLED = "cancelled"  # the user cancelled the run: keep the samples so far


class Lease:
    """Keeps a claim from `begin` to `end`: extends the lease and watches whether the work is still wanted."""

    def __init__(self, ctx: Context, claim: Claim) -> None:
        self._ctx, self._claim = ctx, claim
        self._stop: Stop | None = None
        self._proven = time.monotonic()
        self._lease_s, self._heartbeat_s = ctx.settings.lease_s, ctx.settings.heartbeat_s
        self._thread = RepeatingThread(
            f"lease-{claim.run_task_id}", self._watch, first_s=self._look_s, retry_s=self._look_s
        )

    @property
    def stop(self) -> Stop | None:
        """None while the work is wanted. Cheap: an engine reads it before every round."""
        # Checked on read: the heartbeat thread may be blocked on a dead connection, or was suspended with the process.
        if self._stop is None and time.monotonic() - self._proven >= self._lease_s:
            self._stop = Stop.FENCED
        return self._stop

    def store(self, write: Callable[[], None]) -> None:
        """Calls `write`, a whole unit of work, again while the database is unreachable, for as long as a lease lasts.

        Samples that took minutes must survive a restart of the database. Raises LostClaimError once the lease is lost,
        or the database's error after that time.
        """
        limit = time.monotonic() + self._lease_s
        while True:
            if self.stop is Stop.FENCED:
                raise LostClaimError(str(self._claim.run_task_id))
            try:
                return write()
            except OUTAGES as error:
                if time.monotonic() >= limit:
                    raise
                log.warning("storing failed", run_task=str(self._claim.run_task_id), error=error_summary(error))
                time.sleep(TRY_AGAIN_S)

    def shorten(self, lease_s: float) -> None:
        """Makes the lease end in `lease_s` seconds, if that is sooner, and heartbeats as frequent as that needs.

        A user who waits for the job must not wait for a long lease to run out, should this worker be lost. Raises
        LostClaimError, or the database's error.
        """
        lease_s = min(self._lease_s, lease_s)
        proven = time.monotonic()
        if not self._beat(lease_s):
            raise LostClaimError(str(self._claim.run_task_id))
        # In this order: `stop` must never compare an old heartbeat with the shorter lease.
        self._proven = proven
        self._heartbeat_s, self._lease_s = min(self._heartbeat_s, lease_s / BEATS, LONGEST_BEAT_S), lease_s

    def begin(self) -> None:
        """Starts the heartbeat."""
        self._thread.start()

    def end(self) -> None:
        """Ends the heartbeat. A job that was not released is lost when the lease runs out."""
        self._thread.stop()

    @property
    def _look_s(self) -> float:
        return min(WATCH_S, self._heartbeat_s)

    def _watch(self) -> float | None:
        if self.stop is not None:
            return None
        now = time.monotonic()
        if now - self._proven >= self._heartbeat_s:
            if not self._beat(self._lease_s):
                self._stop = Stop.FENCED
                return None
            self._proven = now
        noticed = Stop.INTERRUPTED if self._ctx.stopping.is_set() else self._unwanted()
        self._stop = self.stop or noticed
        return self._look_s if self._stop is None else None

    def _beat(self, lease_s: float) -> bool:
        with self._ctx.database.heartbeats.session() as session:
            return updated_any(
                session,
                update(RunTask)
                .where(RunTask.id == self._claim.run_task_id, RunTask.attempt_token == self._claim.token)
                .values(lease_until=database_time(session, lease_s)),
            )

    def _unwanted(self) -> Stop | None:
        """Why the run needs no more work on this job; None while it does."""
        with self._ctx.database.heartbeats.read() as session:
            run = session.execute(
                select(Run.state, Run.cancel_requested_at).where(Run.id == self._claim.run_id)
            ).one_or_none()
        if run is None:
            return Stop.FENCED  # the run was deleted
        state, cancelled_at = run
        if cancelled_at is not None:
            return Stop.CANCELLED
        return None if state == RunState.RUNNING else Stop.INTERRUPTED
