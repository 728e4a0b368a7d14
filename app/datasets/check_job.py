"""The job of checking a dataset's canonical solutions: one worker at a time has its lease, and results are kept in
steps.

Its columns have the names that one table of all background work would give them, so that it can become a row of that.
"""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

import psutil
from sqlalchemy import delete, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.context import Context
from app.datasets.models import DatasetCheck, DatasetCheckJob
from app.db.clock import database_time
from app.db.database import updated_any
from app.db.ids import new_id
from app.db.threads import RepeatingThread


class HeldByOtherError(Exception):
    """Another worker has the lease, or has taken it over: nothing of this worker is stored any more."""


@dataclass
class Progress:
    """Which solutions have been judged, by their number, and with what result.

    `faults` counts those on which the sandbox failed, which says nothing about the dataset.
    """

    judged: set[int] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)
    faults: int = 0

    @classmethod
    def from_row(cls, row: DatasetCheckJob) -> Self:
        """What earlier steps have stored."""
        cursor = row.cursor
        judged = {*range(cursor.get("next", 0)), *cursor.get("after", ())}
        return cls(judged, list(row.failed), cursor.get("faults", 0))

    @property
    def first_left(self) -> int:
        """The number of the first solution that is not judged."""
        return next(number for number in range(len(self.judged) + 1) if number not in self.judged)

    def to_cursor(self) -> dict[str, Any]:
        """As JSON: all before `next` are judged, and those in `after`."""
        first = self.first_left
        return {"next": first, "after": sorted(n for n in self.judged if n > first), "faults": self.faults}


class CheckLease:
    """The right to check a dataset in one kind of sandbox, as a context manager that heartbeats.

    `attempt` counts the claims since a step was last stored: what is left after an exception counts as lost.
    """

    def __init__(self, ctx: Context, job_id: uuid.UUID, fence: uuid.UUID, attempt: int, progress: Progress) -> None:
        self.attempt, self.progress = attempt, progress
        self._ctx, self._job_id, self._fence = ctx, job_id, fence
        self._proven = time.monotonic()
        self._is_lost = False
        beat_s = ctx.settings.heartbeat_s
        self._thread = RepeatingThread(f"check-{job_id}", self._beat, first_s=beat_s, retry_s=beat_s)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.stop()

    def require_held(self) -> None:
        """Raises HeldByOtherError once another worker may have the lease."""
        if self._is_lost or time.monotonic() - self._proven >= self._ctx.settings.lease_s:
            raise HeldByOtherError

    def store_step(self) -> None:
        """Stores what has been judged. Raises HeldByOtherError."""
        with self._ctx.database.session() as session:
            lease_until = database_time(session, self._ctx.settings.lease_s)
            self._write(session, attempt=0, lease_until=lease_until, **self._results())

    def release(self) -> None:
        """Stores what has been judged, and lets any worker go on. Raises HeldByOtherError."""
        with self._ctx.database.session() as session:
            self._write(session, attempt=0, lease_until=None, fence=None, claimed_by=None, **self._results())

    def finish(self, failed: Iterable[str]) -> None:
        """Stores the result of the whole check, unless the sandbox failed on a solution. Raises HeldByOtherError."""
        with self._ctx.database.session() as session:
            row = session.scalar(select(DatasetCheckJob).where(*self._ours()).with_for_update())
            if row is None:
                raise HeldByOtherError
            if not self.progress.faults:
                session.add(DatasetCheck(dataset_id=row.dataset_id, sandbox=row.sandbox, failed=list(failed)))
            session.execute(delete(DatasetCheckJob).where(*self._ours()))

    def _results(self) -> dict[str, Any]:
        return {"cursor": self.progress.to_cursor(), "failed": self.progress.failed}

    def _write(self, session: Session, **values: Any) -> None:
        if not updated_any(session, update(DatasetCheckJob).where(*self._ours()).values(values)):
            raise HeldByOtherError

    def _ours(self) -> tuple[Any, ...]:
        return DatasetCheckJob.id == self._job_id, DatasetCheckJob.fence == self._fence

    def _beat(self) -> float | None:
        now = time.monotonic()
        with self._ctx.database.heartbeats.session() as session:
            extended = update(DatasetCheckJob).where(*self._ours())
            lease_until = database_time(session, self._ctx.settings.lease_s)
            if not updated_any(session, extended.values(lease_until=lease_until)):
                self._is_lost = True
                return None
        self._proven = now
        return self._ctx.settings.heartbeat_s


def claim_check(ctx: Context, dataset_id: uuid.UUID, sandbox: str) -> CheckLease:
    """Takes the lease, with the results of earlier steps. Raises HeldByOtherError."""
    fence = new_id()
    named = (DatasetCheckJob.dataset_id == dataset_id, DatasetCheckJob.sandbox == sandbox)
    try:
        with ctx.database.session() as session:
            lease_until = database_time(session, ctx.settings.lease_s)
            if session.scalar(select(DatasetCheckJob.id).where(*named)) is None:
                session.add(DatasetCheckJob(dataset_id=dataset_id, sandbox=sandbox))
                session.flush()
            free = or_(DatasetCheckJob.lease_until.is_(None), DatasetCheckJob.lease_until <= database_time(session))
            claimed = update(DatasetCheckJob).where(*named, free)
            values = {"claimed_by": ctx.worker_name, "fence": fence, "lease_until": lease_until}
            if not updated_any(session, claimed.values(attempt=DatasetCheckJob.attempt + 1, **values)):
                raise HeldByOtherError
            row = session.scalars(
                select(DatasetCheckJob).where(*named), execution_options={"populate_existing": True}
            ).one()
            return CheckLease(ctx, row.id, fence, row.attempt, Progress.from_row(row))
    except IntegrityError:  # another worker has just stored the row
        raise HeldByOtherError from None


def free_leases_of_ended_processes(session: Session) -> None:
    """Frees the leases of processes of this machine that are gone, without waiting until they expire."""
    held = select(DatasetCheckJob).where(DatasetCheckJob.lease_until.is_not(None))
    for row in session.scalars(held):
        host, _, pid = (row.claimed_by or "").rpartition(":")
        if host == socket.gethostname() and pid.isdigit() and not psutil.pid_exists(int(pid)):
            row.lease_until = row.fence = None


def is_check_in_progress(session: Session) -> bool:
    """Whether a worker checks a dataset."""
    held = select(DatasetCheckJob.id).where(DatasetCheckJob.lease_until > database_time(session))
    return session.scalar(held.limit(1)) is not None


def has_expired_leases(session: Session) -> bool:
    """Whether a lease has ended whose worker did not release it."""
    expired = select(DatasetCheckJob.id).where(DatasetCheckJob.lease_until <= database_time(session))
    return session.scalar(expired.limit(1)) is not None


def free_expired_leases(session: Session) -> set[uuid.UUID]:
    """Frees the leases whose worker has stopped heartbeating. Returns the ids of their datasets."""
    expired = update(DatasetCheckJob).where(DatasetCheckJob.lease_until <= database_time(session))
    freed = expired.values(lease_until=None, fence=None).returning(DatasetCheckJob.dataset_id)
    return set(session.scalars(freed, execution_options={"synchronize_session": False}))
