"""The rows of background work: opened, cancelled, retried, and recovered from lost workers (docs/jobs.md)."""

from __future__ import annotations

import contextlib
import datetime as dt
import socket
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import psutil
import structlog
from sqlalchemy import ColumnElement, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.background.handlers import get_handler
from app.background.leases import MAX_ATTEMPTS, has_expired, take_back
from app.background.models import BackgroundJob
from app.core.broker import queues
from app.core.context import Context
from app.core.db.clock import build_database_time
from app.core.db.database import call_after_commit, execute_change, log_failure
from app.core.db.types import generate_id, get_utc_time
from app.core.errors import ConflictError, NotFoundError
from app.core.states import OPEN_BACKGROUND_JOB_STATES, BackgroundJobState, Failure

LOST = f"{Failure.WORKER_LOST}: {MAX_ATTEMPTS} workers in a row stopped while they {{}}: see the workers' logs"
ENDED = "its process has ended: give the command again"
log = structlog.get_logger(__name__)


def make_job(kind: str, subject: str, **columns: Any) -> BackgroundJob:
    """A job to be stored by the caller, who works it or sends its message."""
    handler, columns["arguments"] = get_handler(kind), dict(columns.get("arguments") or {})
    queue = handler.queue if handler else None
    return BackgroundJob(
        id=generate_id(), kind=kind, subject=subject[:300], queue=queue, enqueued_at=get_utc_time(), **columns
    )


def open_job(
    ctx: Context,
    kind: str,
    subject: str,
    *,
    key: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    input: bytes | None = None,
) -> uuid.UUID:
    """The id of an open job. An unfinished one with this key is reopened and resumed."""
    own = (BackgroundJob.kind == kind, BackgroundJob.key == key, BackgroundJob.state != BackgroundJobState.FINISHED)
    row = make_job(kind, subject, key=key, arguments=arguments, input=input)
    for _ in range(MAX_ATTEMPTS):
        with contextlib.suppress(IntegrityError), ctx.database.session() as session:
            earlier = select(BackgroundJob).where(*own).order_by(BackgroundJob.id.desc()).limit(1)
            known = None if key is None else session.scalar(earlier)
            if known is None:
                session.add(row)
                return row.id
            if known.state not in OPEN_BACKGROUND_JOB_STATES:
                known.input = input if known.input is None else known.input  # an end by cancelling drops it
                _reopen(known)
            return known.id
    raise ConflictError(f"{subject} is being worked on by others: try again")


def _reopen(job: BackgroundJob) -> None:
    job.state, job.attempt, job.error, job.enqueued_at = BackgroundJobState.QUEUED, 0, None, get_utc_time()
    job.finished_at = job.cancel_requested_at = None


def handle_end(ctx: Context, job: BackgroundJob) -> None:
    """Tells a job's handler that it has ended, after discarding what an unfinished one stored; not if queued."""
    handler = get_handler(job.kind)
    if handler is None or job.state is BackgroundJobState.QUEUED:
        return
    try:
        if job.state is not BackgroundJobState.FINISHED:
            handler.discard(ctx, job)
        handler.on_job_end(ctx, job)
    except Exception as error:
        log_failure("the end of a job could not be handled", error, job_id=str(job.id))


def send(ctx: Context, job: BackgroundJob, queue: str | None) -> None:
    """Sends the message of a job, unless no worker can do it."""
    if queue is not None:
        ctx.broker.send([(queues.WORK_JOB, job.id)], queue)


def return_expired(ctx: Context, *conditions: ColumnElement[bool]) -> None:
    """Returns the jobs of lost workers to their queues; after three in a row without a step a job fails."""
    with ctx.database.read() as session:
        running = select(BackgroundJob).where(BackgroundJob.state == BackgroundJobState.RUNNING, *conditions)
        lost = session.scalars(running.where(has_expired(session, BackgroundJob))).all()
    for job in lost:
        handler = get_handler(job.kind)
        state, error = BackgroundJobState.QUEUED, None
        if job.cancel_requested_at is not None:
            state = BackgroundJobState.CANCELLED
        elif job.queue is None:
            state, error = BackgroundJobState.FAILED, ENDED
        elif job.attempt >= MAX_ATTEMPTS:
            state, error = BackgroundJobState.FAILED, LOST.format(handler.describe_loss(job) if handler else "did this")
        values: dict[str, Any] = {"state": state, "error": error, "enqueued_at": None}
        if state is not BackgroundJobState.QUEUED:
            values["finished_at"] = get_utc_time()
        if state is BackgroundJobState.CANCELLED:
            values["input"] = None
        with ctx.database.session() as session:
            returned = take_back(session, job, **values)
        if returned:
            log.warning("lease expired", job_id=str(job.id), kind=job.kind, attempt=job.attempt, now=str(state))
            job.state, job.error = state, error
            handle_end(ctx, job)


def return_jobs_of_dead_processes(ctx: Context) -> None:
    """Returns the jobs of processes of this machine that are gone, without waiting until their leases expire."""
    with ctx.database.session() as session:
        for job in session.scalars(select(BackgroundJob).where(BackgroundJob.lease_until.is_not(None))):
            host, _, pid = (job.claimed_by or "").rpartition(":")
            if host == socket.gethostname() and pid.isdigit() and not psutil.pid_exists(int(pid)):
                job.lease_until = build_database_time(session)
    return_expired(ctx)


def resend_messages(ctx: Context, silence: dt.timedelta) -> None:
    """Sends messages that may be lost again: of jobs that wait and were last sent one before `silence`."""
    unsent = or_(BackgroundJob.enqueued_at.is_(None), BackgroundJob.enqueued_at < get_utc_time() - silence)
    waiting = select(BackgroundJob).where(
        BackgroundJob.state == BackgroundJobState.QUEUED, BackgroundJob.queue.is_not(None)
    )
    with ctx.database.read() as session:
        jobs = session.scalars(waiting.where(unsent).order_by(BackgroundJob.priority.desc(), BackgroundJob.id)).all()
    for job in jobs:
        with ctx.database.session() as session:
            same = (BackgroundJob.id == job.id, BackgroundJob.state == BackgroundJobState.QUEUED)
            if execute_change(session, update(BackgroundJob).where(*same).values(enqueued_at=get_utc_time())):
                call_after_commit(session, send, ctx, job, job.queue)


def send_if_waiting(ctx: Context, key: str) -> None:
    """Sends the message of the job with this key, if it waits for what has just happened."""
    waiting = (
        BackgroundJob.key == key,
        BackgroundJob.state == BackgroundJobState.QUEUED,
        BackgroundJob.queue.is_not(None),
    )
    with ctx.database.read() as session:
        jobs = session.scalars(select(BackgroundJob).where(*waiting)).all()
    for job in jobs:
        send(ctx, job, job.queue)


def list_jobs(
    session: Session,
    state: BackgroundJobState | None = None,
    *,
    kind: str | None = None,
    limit: int,
    before: uuid.UUID | None = None,
) -> Sequence[BackgroundJob]:
    """Jobs, the latest first; `before` is the last id of the previous page."""
    query = select(BackgroundJob)
    if kind is not None:
        query = query.where(BackgroundJob.kind == kind)
    if state is not None:
        query = query.where(BackgroundJob.state == state)
    if before is not None:
        query = query.where(BackgroundJob.id < before)
    return session.scalars(query.order_by(BackgroundJob.id.desc()).limit(limit)).all()


def get_job(session: Session, job_id: uuid.UUID) -> BackgroundJob:
    """The job. Raises NotFoundError."""
    job = session.get(BackgroundJob, job_id)
    if job is None:
        raise NotFoundError(f"there is no job {job_id}: /jobs, /api/v1/jobs and `bassline jobs list` list all")
    return job


def cancel(ctx: Context, job_id: uuid.UUID) -> None:
    """Ends a job: at once where it waits, else after its step. Raises NotFoundError, ConflictError if it has ended."""
    with ctx.database.session() as session:
        job = get_job(session, job_id)
        if job.state not in OPEN_BACKGROUND_JOB_STATES:
            raise ConflictError(f"the job is {job.state}: only a queued or running one can be cancelled")
        waits = (BackgroundJob.id == job_id, BackgroundJob.state == BackgroundJobState.QUEUED)
        now = get_utc_time()
        ended = {"state": BackgroundJobState.CANCELLED, "finished_at": now, "input": None}
        if not execute_change(session, update(BackgroundJob).where(*waits).values(ended)):
            session.execute(update(BackgroundJob).where(BackgroundJob.id == job_id).values(cancel_requested_at=now))
            return
    with ctx.database.read() as session:
        handle_end(ctx, get_job(session, job_id))


def retry(ctx: Context, job_id: uuid.UUID) -> None:
    """Opens a job again that failed or was cancelled: it goes on where it was. Raises NotFoundError, ConflictError."""
    with ctx.database.session() as session:
        job = get_job(session, job_id)
        if job.state not in (BackgroundJobState.FAILED, BackgroundJobState.CANCELLED):
            raise ConflictError(f"the job is {job.state}: only one that failed or was cancelled can be retried")
        handler = get_handler(job.kind)
        if handler is None or job.queue is None:
            raise ConflictError("no worker can do this job: give the command again")
        if handler.reads_input and job.input is None:
            raise ConflictError("its file is not stored any more: send it again")
        _reopen(job)
        call_after_commit(session, send, ctx, job, job.queue)
