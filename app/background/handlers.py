"""Handlers of background jobs, one per kind; the attempt at a job, which stores its progress; the registry."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from typing import Any, Protocol

from sqlalchemy.orm import Session

from app.background.leases import Lease, LostClaimError, StopReason
from app.background.models import BackgroundJob
from app.core.broker import queues
from app.core.context import Context
from app.core.db.database import OUTAGES, begin_short_transaction
from app.core.lazy_registry import LazyRegistry
from app.core.states import BackgroundJobState

REPORT_S = 1.0  # between two times at which progress is written that no step stores
OnProgress = Callable[[int, int, str], object]


class UnfinishedError(Exception):
    """The attempt stops before the job's end; its steps so far are stored, and the job is left in `state`.

    With `waits` the job waits for an event, whose sender calls `send_if_waiting`; the reaper asks now and then.
    """

    def __init__(self, state: BackgroundJobState, *, waits: bool = False) -> None:
        super().__init__(state)
        self.state, self.waits = state, waits


class JobAttempt:
    """One attempt at a job. `cursor` is where an earlier attempt stopped; change it, then `save`.

    `on_finish` writes in the transaction in which the job ends as finished. After `turn_s` other work of this worker
    has its turn; infinite where a user waits for the job itself.
    """

    def __init__(self, ctx: Context, job: BackgroundJob, lease: Lease, turn_s: float, on_progress: OnProgress) -> None:
        self.ctx, self.job, self.lease = ctx, job, lease
        self.cursor: dict[str, Any] = dict(job.cursor)
        self.result: dict[str, Any] = {}
        self.on_finish: Callable[[Session], None] = lambda _: None
        self._turn_s, self._on_progress = turn_s, on_progress
        self.begin_turn()
        self._saved_at = self._reported_at = time.monotonic()

    @property
    def seconds_since_save(self) -> float:
        """Since the last step was stored."""
        return time.monotonic() - self._saved_at

    @property
    def progress(self) -> dict[str, Any]:
        """How far the job is, as columns."""
        return {"done": self.job.done, "total": self.job.total, "message": self.job.message}

    def report(self, done: int, total: int, message: str = "") -> None:
        """Says how far the job is. It is stored with the next step, or after a second."""
        self.job.done, self.job.total, self.job.message = done, total, message
        self._on_progress(done, total, message)
        if time.monotonic() - self._reported_at >= REPORT_S:
            with self.suppress_lost_claim(*OUTAGES):
                self._store()

    def suppress_lost_claim(self, *others: type[Exception]) -> contextlib.suppress:
        """Ignores these errors; of a command also the loss of its lease, since no other process can go on with it."""
        return contextlib.suppress(*others, *((LostClaimError,) if self.job.queue is None else ()))

    def save(self, write: Callable[[Session], None] = lambda _: None) -> None:
        """Commits `write`, the cursor and the progress together. Raises if the attempt must stop here, or if another
        worker has the job: then nothing is stored."""
        self._store(write, attempt=0, cursor=self.cursor)
        self._saved_at = time.monotonic()
        self.require_wanted()

    def begin_turn(self) -> None:
        """Begins the turn once more, after work that each turn has to repeat."""
        self._ends_at = time.monotonic() + self._turn_s

    def require_wanted(self, *, within_turn: bool = True) -> None:
        """Raises if the attempt must stop: the job was cancelled or lost, the process stops, or the turn is over.

        Without `within_turn` the turn may last longer, for work that cannot be interrupted and resumed.
        """
        if self.lease.stop_reason is StopReason.FENCED:
            raise LostClaimError(str(self.job.id))
        if self.lease.stop_reason is StopReason.CANCELLED:
            raise UnfinishedError(BackgroundJobState.CANCELLED)
        if self.ctx.stopping.is_set() or (within_turn and time.monotonic() >= self._ends_at):
            raise UnfinishedError(BackgroundJobState.QUEUED)
        handler = get_handler(self.job.kind)
        if handler is not None and self._ends_at < math.inf and not handler.is_wanted(self.ctx, self.job):
            raise UnfinishedError(BackgroundJobState.CANCELLED)

    def _store(self, write: Callable[[Session], None] = lambda _: None, **values: Any) -> None:
        def store() -> None:
            with begin_short_transaction(self.ctx.database) as session:
                self.lease.row_claim.write(session, **self.progress, **values)
                write(session)

        self.lease.store(store)
        self._reported_at = time.monotonic()


class Handler(Protocol):
    """Does one kind of job. Stateless: one object serves all threads of a process."""

    kind: str
    queue: str = queues.EXEC
    reads_input: bool = False
    """Whether it needs the file in `job.input`, which some ends of a job drop."""

    def run(self, job: BackgroundJob, attempt: JobAttempt) -> dict[str, Any] | None:
        """Does the job from `attempt.cursor` on. Returns its result. A BasslineError fails it: another attempt would
        end the same way."""

    def is_wanted(self, ctx: Context, job: BackgroundJob) -> bool:
        """Whether the result is still of use, where no user waits for the job itself. Asked after each step.

        If not, the job is cancelled, and goes on from there if it is opened again.
        """
        return True

    def must_wait(self, ctx: Context, job: BackgroundJob) -> bool:
        """Whether a job must still wait: asked once its row says so, since the event may have come meanwhile."""
        return True

    def on_job_end(self, ctx: Context, job: BackgroundJob) -> None:
        """Called when a job has ended, in any state."""
        return

    def discard(self, ctx: Context, job: BackgroundJob) -> None:
        """Removes what a failed or cancelled job has stored; a retry then starts over."""
        return

    def describe_loss(self, job: BackgroundJob) -> str:
        """What the lost workers were doing, to follow "while they"."""
        return f"did this ({f'{job.done} of {job.total} {job.message}'.strip()})"


HANDLERS = LazyRegistry[Handler](lambda handler: handler.kind)


def get_handler(kind: str) -> Handler | None:
    """The handler of a kind; None for what only a command can do."""
    return HANDLERS.get_all().get(kind)
