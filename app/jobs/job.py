"""A claimed job: one context manager keeps its lease and ends the attempt, whatever comes of it.

Both steps go through it: decoding one task, decoding several in one batch, and grading.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import structlog
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.background.leases import MAX_ATTEMPTS, LostClaimError
from app.core.context import Context
from app.core.db.database import call_after_commit, log_failure, summarize_error
from app.core.db.types import get_utc_time
from app.core.errors import UnavailableError
from app.core.states import OPEN_TASK_STATES, Failure, TaskState, WorkStep
from app.jobs import claims
from app.jobs.claims import Claim
from app.jobs.work.live_updates import publish_task_change
from app.runs import transitions
from app.runs.models import Run
from decoding.request import RequestError
from evaluation.prompting import PromptError

WAITING = tuple(step.waiting for step in WorkStep)
log = structlog.get_logger(__name__)


class CannotLoadError(Exception):
    """The run's engine cannot be loaded, so none of its tasks can be decoded; the message says why."""


class WorkStoppedError(Exception):
    """The run has stopped, or this process is stopping: the work is not wanted now."""


class Job:
    """A claimed job, to be used as a context manager around the work on it.

    Inside, a heartbeat keeps the lease, and `finish` stores the results. An exception ends the attempt instead:

        WorkStoppedError           back to where the job waited, or cancelled with its run; the attempt does not count
        CannotLoadError            the same, and the run fails
        UnavailableError           the same, and the run is interrupted
        RequestError, PromptError  the job fails: another attempt would end the same way
        LostClaimError             another worker has the job: nothing is written
        any other Exception        another attempt, or after MAX_ATTEMPTS the job fails

    None of these leaves the block. What does (SystemExit, an error of the database while the attempt is ended) leaves
    the job to the reaper, which finds the expired lease. The last open job closes its run. What else follows
    is the policy's (Policy.after_step).
    """

    def __init__(self, ctx: Context, claim: Claim) -> None:
        self.claim = claim
        self.lease = claims.make_lease(ctx, claim)
        self._ctx = ctx
        self._ended = False  # in a state that needs no more work

    def __enter__(self) -> Self:
        self.lease.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        try:
            if isinstance(error, Exception):
                self._end_attempt(error)
        finally:
            self.lease.end()
        if self._ended:
            transitions.close_if_done(self._ctx, self.claim.run_id)
        self.claim.policy.after_step(self._ctx, self.claim.run_id)
        return isinstance(error, Exception)

    def announce(self) -> None:
        """Publishes that the work on the job has begun."""
        self._publish(self.claim.step.working, None)

    def finish(self, state: TaskState, write: Callable[[Session], None], **values: Any) -> None:
        """Stores the results: `write` and the job's new state with `values`, in one transaction.

        Tries again while the database is unreachable, as long as the lease lasts. Raises LostClaimError.
        """
        self.lease.store(lambda: self._release(state, write, error=None, failure=None, **values))

    def _end_attempt(self, error: Exception) -> None:
        claim = self.claim
        try:
            match error:
                case LostClaimError():
                    raise error
                case WorkStoppedError():
                    self._put_back()
                case CannotLoadError():
                    transitions.fail_run(self._ctx, claim.run_id, Failure.MODEL, str(error))
                    self._put_back()
                case UnavailableError():
                    self._put_back()
                    transitions.interrupt(self._ctx, claim.run_id, str(error))
                case RequestError() | PromptError():
                    self._fail(Failure.REQUEST, str(error))
                case _:
                    self._retry(error)
        except LostClaimError:
            log.warning("result dropped: another worker owns the job", run_task=str(claim.run_task_id))

    def _put_back(self) -> None:
        # Without a message: when the run is resumed, it is prepared again.
        self._release(self.claim.step.waiting, send=False, attempt=self.claim.attempt - 1, started_at=None)

    def _fail(self, failure: Failure, error: str) -> None:
        self._release(TaskState.FAILED, error=error, failure=failure, finished_at=get_utc_time())

    def _retry(self, error: Exception) -> None:
        """Another attempt, by any worker, or the end after the last one."""
        failure, sentence = self.claim.step.failure, f"{self.claim.step.failure} failed: {summarize_error(error)}"
        # First the row, while the lease lasts: writing a traceback may take time.
        if self.claim.attempt < MAX_ATTEMPTS:
            self._release(self.claim.step.waiting, error=sentence, failure=failure)
        else:
            self._fail(failure, sentence)
        log_failure(f"{failure} failed", error, run_task=str(self.claim.run_task_id))

    def _release(
        self, state: TaskState, write: Callable[[Session], None] | None = None, *, send: bool = True, **values: Any
    ) -> None:
        """Leaves the job in `state`. After COMMIT: the events of `write`, the job's, the message for its next step.

        A job of a cancelled run never waits again: it is cancelled too, with the samples it has.
        """
        with self._ctx.database.session() as session:
            if state in WAITING and session.scalar(select(Run.cancel_requested_at).where(Run.id == self.claim.run_id)):
                state = TaskState.CANCELLED
                values["finished_at"] = get_utc_time()
            claims.release(session, self.claim, state, **values)
            if write is not None:
                write(session)
            call_after_commit(session, self._publish, state, values.get("error") if state is TaskState.FAILED else None)
            if send:
                call_after_commit(session, self._enqueue, state)
        self._ended = state not in OPEN_TASK_STATES

    def _publish(self, state: TaskState, error: str | None) -> None:
        publish_task_change(self._ctx, self.claim.run_id, self.claim.task_id, self.claim.position, state, error)

    def _enqueue(self, state: TaskState) -> None:
        for step in WorkStep:
            if state is step.waiting:
                self.claim.policy.send_messages(self._ctx, self.claim.run_id, step, [self.claim.run_task_id])
