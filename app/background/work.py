"""Attempts at background jobs: one claim, one lease and one rule for how each ends (docs/jobs.md).

A handler works in steps: each commits what it stored together with the place where to resume, so a worker that is
killed loses one step. A command that only this process can carry out is a job too (`hold_command`).
"""

from __future__ import annotations

import contextlib
import math
import uuid
from collections.abc import Iterator
from functools import partial
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session, undefer

from app.background.handlers import JobAttempt, OnProgress, UnfinishedError, get_handler
from app.background.jobs import cancel, handle_end, open_job, return_expired, return_jobs_of_dead_processes, send
from app.background.leases import MAX_ATTEMPTS, Lease, LostClaimError, StopReason, claim_row
from app.background.models import BackgroundJob
from app.core.broker import queues
from app.core.context import Context
from app.core.db.database import OUTAGES, call_after_commit, log_failure, summarize_error
from app.core.db.types import get_utc_time
from app.core.errors import BasslineError, CancelledError, ConflictError, UnavailableError
from app.core.states import BackgroundJobState

JOB_TURN_S = 60.0  # after which other work of this worker goes before the rest of a job


@contextlib.contextmanager
def hold_job(
    ctx: Context, job_id: uuid.UUID, *, turn_s: float = math.inf, on_progress: OnProgress = lambda *_: None
) -> Iterator[JobAttempt]:
    """Claims a job that waits and keeps its lease; how the block ends decides the job's state:

        no exception       finished
        BasslineError      failed: another attempt would end the same way
        KeyboardInterrupt  cancelled
        UnfinishedError    to the queue, as after a turn; or cancelled, and CancelledError is raised
        LostClaimError     nothing is written: another worker has the job
        an outage          the same, and the lease runs out
        anything else      to the queue, or failed after three attempts without a step

    Raises LostClaimError if the job does not wait.
    """
    return_expired(ctx, BackgroundJob.id == job_id)
    started_at = func.coalesce(BackgroundJob.started_at, get_utc_time())
    waits = BackgroundJob.state == BackgroundJobState.QUEUED
    row_claim = claim_row(
        ctx, BackgroundJob, job_id, waits, state=BackgroundJobState.RUNNING, started_at=started_at, error=None
    )
    if row_claim is None:
        raise LostClaimError(str(job_id))
    with ctx.database.read() as session:
        job = session.get_one(BackgroundJob, job_id, options=[undefer(BackgroundJob.input)])
    attempt = JobAttempt(ctx, job, Lease(ctx, row_claim, partial(_find_stop, job_id)), turn_s, on_progress)
    attempt.lease.begin()
    try:
        yield attempt
        with attempt.suppress_lost_claim():
            attempt.lease.store(lambda: _end_attempt(attempt, BackgroundJobState.FINISHED, result=attempt.result))
    except (LostClaimError, *OUTAGES):
        raise
    except UnfinishedError as error:
        _end_attempt(attempt, error.state, waits=error.waits)
        if error.state is BackgroundJobState.CANCELLED:
            raise CancelledError("the job was cancelled") from None
        raise
    except KeyboardInterrupt:
        _end_attempt(attempt, BackgroundJobState.CANCELLED)
        raise
    except BasslineError as error:
        _end_attempt(attempt, BackgroundJobState.FAILED, error=str(error), input=None)
        raise
    except Exception as error:
        is_last = row_claim.attempt >= MAX_ATTEMPTS or job.queue is None
        _end_attempt(
            attempt, BackgroundJobState.FAILED if is_last else BackgroundJobState.QUEUED, error=summarize_error(error)
        )
        raise
    finally:
        attempt.lease.end()


def _find_stop(job_id: uuid.UUID, session: Session) -> StopReason | None:
    found = session.execute(select(BackgroundJob.cancel_requested_at).where(BackgroundJob.id == job_id)).one_or_none()
    return StopReason.FENCED if found is None else StopReason.CANCELLED if found[0] is not None else None


def _end_attempt(attempt: JobAttempt, state: BackgroundJobState, *, waits: bool = False, **values: Any) -> None:
    """Ends the attempt. Raises LostClaimError, and nothing is stored."""
    ctx, job = attempt.ctx, attempt.job
    if waits:
        values["attempt"] = 0  # nothing has failed
    if state is not BackgroundJobState.QUEUED:
        values["finished_at"] = get_utc_time()
    if state in (BackgroundJobState.FINISHED, BackgroundJobState.CANCELLED):
        values["input"] = None
    # At the end of the process no message is sent: the next start does it.
    sent_at = None if ctx.stopping.is_set() else get_utc_time()
    with ctx.database.session() as session:
        attempt.lease.row_claim.release(session, state=state, enqueued_at=sent_at, **attempt.progress, **values)
        if state is BackgroundJobState.FINISHED:
            attempt.on_finish(session)
        if state is BackgroundJobState.QUEUED and sent_at is not None and not waits:
            call_after_commit(session, send, ctx, job, queues.EXEC if job.queue else None)  # behind the work that waits
    job.state, job.error = state, values.get("error")
    handler = get_handler(job.kind)
    if waits and handler is not None and not handler.must_wait(ctx, job):
        send(ctx, job, job.queue)
    handle_end(ctx, job)


def run_job(
    ctx: Context, job_id: uuid.UUID, *, turn_s: float = math.inf, on_progress: OnProgress = lambda *_: None
) -> dict[str, Any]:
    """Does a job in this process, from its first step or from where an earlier attempt stopped. Returns its result."""
    with hold_job(ctx, job_id, turn_s=turn_s, on_progress=on_progress) as attempt:
        handler = get_handler(attempt.job.kind)
        if handler is None:
            raise BasslineError(f"only a command does {attempt.job.kind}, or a newer version: give the command again")
        attempt.result = handler.run(attempt.job, attempt) or {}
    return attempt.result


@contextlib.contextmanager
def hold_command(
    ctx: Context, kind: str, subject: str, key: str, on_progress: OnProgress = lambda *_: None
) -> Iterator[JobAttempt]:
    """`hold_job` for what only this process can do, with its user's rights and files: the block does the work.

    Raises ConflictError where another process does the same. One that was killed leaves the key free at once.
    """
    return_jobs_of_dead_processes(ctx)
    job_id = open_job(ctx, kind, subject, key=key)
    try:
        with hold_job(ctx, job_id, on_progress=on_progress) as attempt:
            yield attempt
    except LostClaimError:
        raise ConflictError(f"another process does this for {subject}: wait for it, or end it") from None


def run_job_or_cancel(ctx: Context, job_id: uuid.UUID, on_progress: OnProgress = lambda *_: None) -> dict[str, Any]:
    """Does a job for a caller who waits for it: one that raises is cancelled, since the caller will ask again.

    Raises ConflictError where another process does it, and UnavailableError where this one stops.
    """
    return_jobs_of_dead_processes(ctx)
    try:
        return run_job(ctx, job_id, on_progress=on_progress)
    except LostClaimError:
        raise ConflictError("another process does this: `bassline jobs list` shows how far it is") from None
    except BaseException as error:
        with contextlib.suppress(Exception):
            cancel(ctx, job_id)
        if isinstance(error, UnfinishedError):
            raise UnavailableError("this process is stopping: ask again once it has started") from None
        raise


def handle_message(ctx: Context, job_id: uuid.UUID) -> None:
    """Does the job that a message names, for a turn. Safe to call for any id, any number of times."""
    try:
        run_job(ctx, job_id, turn_s=JOB_TURN_S)
    except (LostClaimError, UnfinishedError, BasslineError):
        return  # the row says what came of it
    except Exception as error:
        log_failure("a job failed", error, job_id=str(job_id))
