"""Who owns a row of work: claim, heartbeat, fence and release, the same for every table (docs/jobs.md).

A claim is one conditional UPDATE that writes a new fence and a lease. Every later write carries `WHERE fence = mine`,
so a worker that lost its lease can change nothing.
"""

from __future__ import annotations

import enum
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import ColumnElement, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from app.background.models import Leased
from app.core.context import Context
from app.core.db.clock import build_database_time
from app.core.db.database import OUTAGES, execute_change, summarize_error
from app.core.db.threads import RepeatingThread
from app.core.db.types import generate_id

MAX_ATTEMPTS = 3
SERIALIZATION_FAILURES = ("40001", "40P01")  # PostgreSQL: could not serialize, deadlock
WATCH_S = 0.5
TRY_AGAIN_S = 0.25
BEATS = 5  # heartbeats within a shortened lease, at least
LONGEST_BEAT_S = 1.0  # between them: a client that waits at the end of a budget must see that the worker lives
log = structlog.get_logger(__name__)


class LostClaimError(Exception):
    """Another worker owns the row by now; what was computed for it is dropped."""


class StopReason(enum.StrEnum):
    """Why a worker should stop working on a row."""

    FENCED = "fenced"  # another worker has it, or we could not prove that we are alive
    INTERRUPTED = "interrupted"  # its run or this process stops: return the row
    CANCELLED = "cancelled"  # the user cancelled it: keep what there is so far


@dataclass(frozen=True, slots=True)
class RowClaim:
    """The right to write to a row until the lease runs out."""

    table: type[Leased]
    row_id: uuid.UUID
    fence: uuid.UUID
    attempt: int

    def write(self, session: Session, **values: Any) -> None:
        """Changes columns. Raises LostClaimError, which rolls the unit of work back."""
        mine = update(self.table).where(self.table.id == self.row_id, self.table.fence == self.fence)
        if not execute_change(session, mine.values(values)):
            raise LostClaimError(str(self.row_id))

    def release(self, session: Session, **values: Any) -> None:
        """Changes columns and leaves the row to nobody. Raises as `write` does."""
        self.write(session, fence=None, lease_until=None, **values)


def claim_row(
    ctx: Context, table: type[Leased], row_id: uuid.UUID, *conditions: ColumnElement[bool], **values: Any
) -> RowClaim | None:
    """Takes a row under these conditions and writes `values`; None if they do not hold or another worker was faster."""
    fence = generate_id()
    try:
        with ctx.database.session() as session:
            taken = update(table).where(table.id == row_id, *conditions)
            lease_until = build_database_time(session, ctx.settings.lease_s)
            own = {"attempt": table.attempt + 1, "fence": fence, "claimed_by": ctx.worker_name}
            attempt = session.scalar(
                taken.values(lease_until=lease_until, **own, **values).returning(table.attempt),
                execution_options={"synchronize_session": False},
            )
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) in SERIALIZATION_FAILURES:
            return None
        raise
    return None if attempt is None else RowClaim(table, row_id, fence, attempt)


def has_expired(session: Session, table: type[Leased]) -> ColumnElement[bool]:
    """Whether the worker of a row has stopped heartbeating, as a condition."""
    return table.lease_until <= build_database_time(session)


def take_back(session: Session, row: Leased, **values: Any) -> bool:
    """Frees a row whose lease had expired when it was read. False if its worker, or another reaper, was faster."""
    table = type(row)
    unchanged = (table.id == row.id, table.fence.is_not_distinct_from(row.fence), table.lease_until == row.lease_until)
    return execute_change(session, update(table).where(*unchanged).values(fence=None, lease_until=None, **values))


class Lease:
    """Keeps a claim from `begin` to `end`: extends the lease and watches whether the work is still wanted.

    `find_stop` says why it is not, None while it is.
    """

    def __init__(self, ctx: Context, row_claim: RowClaim, find_stop: Callable[[Session], StopReason | None]) -> None:
        self._ctx, self.row_claim, self._find_stop = ctx, row_claim, find_stop
        self._stop: StopReason | None = None
        self._proven = time.monotonic()
        self._lease_s, self._heartbeat_s = ctx.settings.lease_s, ctx.settings.heartbeat_s
        self._thread = RepeatingThread(
            f"lease-{row_claim.row_id}", self._watch, first_s=self._look_s, retry_s=self._look_s
        )

    def begin(self) -> None:
        """Starts the heartbeat."""
        self._thread.start()

    def end(self) -> None:
        """Ends the heartbeat. A row that was not released is lost when the lease runs out."""
        self._thread.stop()

    @property
    def stop_reason(self) -> StopReason | None:
        """None while the work is wanted. Cheap: an engine reads it before every round."""
        # Checked on read: the heartbeat thread may be blocked on a dead connection, or was suspended with the process.
        if self._stop is None and time.monotonic() - self._proven >= self._lease_s:
            self._stop = StopReason.FENCED
        return self._stop

    def store(self, write: Callable[[], None]) -> None:
        """Calls `write`, a whole unit of work, again while the database is unreachable, for as long as a lease lasts.

        Samples that took minutes must survive a restart of the database. Raises LostClaimError once the lease is lost,
        or the database's error after that time.
        """
        limit = time.monotonic() + self._lease_s
        while True:
            if self.stop_reason is StopReason.FENCED:
                raise LostClaimError(str(self.row_claim.row_id))
            try:
                return write()
            except OUTAGES as error:
                if time.monotonic() >= limit:
                    raise
                log.warning("storing failed", row=str(self.row_claim.row_id), error=summarize_error(error))
                time.sleep(TRY_AGAIN_S)

    def shorten(self, lease_s: float) -> None:
        """Makes the lease end in `lease_s` seconds, if that is sooner, and heartbeats as frequent as that needs.

        A user who waits for the job must not wait for a long lease to run out, should this worker be lost. Raises
        LostClaimError, or the database's error.
        """
        lease_s = min(self._lease_s, lease_s)
        proven = time.monotonic()
        self._renew(lease_s)
        # In this order: `stop_reason` must never compare an old heartbeat with the shorter lease.
        self._proven = proven
        self._heartbeat_s, self._lease_s = min(self._heartbeat_s, lease_s / BEATS, LONGEST_BEAT_S), lease_s

    @property
    def _look_s(self) -> float:
        return min(WATCH_S, self._heartbeat_s)

    def _watch(self) -> float | None:
        if self.stop_reason is not None:
            return None
        now = time.monotonic()
        if now - self._proven >= self._heartbeat_s:
            try:
                self._renew(self._lease_s)
            except LostClaimError:
                self._stop = StopReason.FENCED
                return None
            self._proven = now
        noticed: StopReason | None = StopReason.INTERRUPTED
        if not self._ctx.stopping.is_set():
            with self._ctx.database.heartbeats.read() as session:
                noticed = self._find_stop(session)
        self._stop = self.stop_reason or noticed
        return self._look_s if self._stop is None else None

    def _renew(self, lease_s: float) -> None:
        with self._ctx.database.heartbeats.session() as session:
            self.row_claim.write(session, lease_until=build_database_time(session, lease_s))
