"""Liveness of this process, and readiness of the service to process submitted runs."""

from __future__ import annotations

import datetime as dt
import math
import shutil
import threading
import time
from concurrent.futures import Future

import structlog
from flask import Blueprint, Response
from pydantic import Field
from sqlalchemy import func, or_, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.background.models import BackgroundJob
from app.core.broker import queues
from app.core.context import Context
from app.core.db import migrate
from app.core.db.clock import build_database_time, read_database_time
from app.core.db.database import Database, summarize_error
from app.core.errors import UnavailableError
from app.core.states import RunState, TaskState, WorkStep
from app.runs.models import Run, RunTask
from app.web.http.operations import JSON, declare_operation
from app.web.http.request_context import get_context, get_singleton
from app.web.http.schemas import ResponseModel
from app.workers import service as workers

bp = Blueprint("health", __name__, url_prefix="/api/v1/health")
log = structlog.get_logger(__name__)

DEAF_S = 120.0  # twice the silence limit (app/workers/service.py) with the default lease
LEAST_BYTES = 50_000_000  # free on the disk of a SQLite file: a batch of samples and the write-ahead log
REUSE_S = 2.0  # for which a readiness is given again
ANSWER_S = 3.0  # after which the answer is that there was none
READY = "ready"
NOT_ASKED = "not asked: the database is at fault"
# Jobs in these states show that a worker processes the step.
IN_HAND = {
    None: (TaskState.GRADING,),
    WorkStep.DECODE: (TaskState.DECODING, TaskState.DECODED, TaskState.GRADING),
    WorkStep.GRADE: (TaskState.GRADING,),
}


class Liveness(ResponseModel):
    """The process answers."""

    status: str


class Readiness(ResponseModel):
    """`checks` holds "ok" or the fault of each part."""

    status: str = Field(description="ready or unready")
    checks: dict[str, str]


@bp.get("/live")
@declare_operation({200: Liveness})
def live() -> Liveness:
    """The process answers."""
    return Liveness(status="live")


@bp.get("/ready")
@declare_operation({200: Readiness, 503: Readiness})
def ready() -> Response:
    """200 if database, broker and workers can process and store runs; else 503, with the part that cannot."""
    document = get_singleton(ReadinessCheck).read(get_context())
    status = 200 if document.status == READY else UnavailableError.status
    return Response(document.model_dump_json(), status, content_type=JSON)


class ReadinessCheck:
    """The last readiness of a process: checked every REUSE_S seconds at most, in a thread of its own.

    A query of a paused database never returns, so the check must not run in the thread of a request.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: Future[Readiness] = Future()  # of the last check, or of the one that is under way
        self._began_at = -math.inf

    def read(self, ctx: Context) -> Readiness:
        """The readiness, at most REUSE_S seconds old. Takes at most ANSWER_S seconds."""
        with self._lock:
            is_over = self._found.done() or self._began_at == -math.inf
            if is_over and time.monotonic() - self._began_at >= REUSE_S:
                self._found, self._began_at = Future(), time.monotonic()
                threading.Thread(target=_check, args=(ctx, self._found), name="readiness", daemon=True).start()
            found, left_s = self._found, self._began_at + ANSWER_S - time.monotonic()
        try:
            return found.result(max(left_s, 0.0))
        except TimeoutError:
            return _build_unready(f"does not answer within {ANSWER_S:g} seconds")


def _check(ctx: Context, found: Future[Readiness]) -> None:
    try:
        found.set_result(check_readiness(ctx))
    except Exception as error:
        log.warning("readiness could not be checked", exc_info=error)
        found.set_result(_build_unready(f"cannot be checked: {summarize_error(error)}"))


def check_readiness(ctx: Context) -> Readiness:
    """The state of each part. Writes nothing."""
    database = ctx.database
    faults = {
        "database": find_database_fault(database) or find_storage_fault(database),
        "broker": ctx.broker.find_fault(),
    }
    faults["workers"] = NOT_ASKED if faults["database"] else find_workers_fault(database)
    checks = {part: fault or "ok" for part, fault in faults.items()}
    return Readiness(status="unready" if any(faults.values()) else READY, checks=checks)


def _build_unready(fault: str) -> Readiness:
    return Readiness(status="unready", checks={"database": fault, "broker": "not asked", "workers": NOT_ASKED})


def compute_longest_wait_s(session: Session, step: WorkStep | None, now: dt.datetime) -> float:
    """Seconds for which the oldest waiting job of a step has waited (None: run to be prepared); 0 if none waits.

    Runs pinned to one worker do not count, because other workers may not claim them.
    """
    if step is None:
        query = select(func.min(Run.created_at)).where(Run.state == RunState.QUEUED, Run.started_at.is_(None))
    else:
        query = (
            select(func.min(func.coalesce(RunTask.started_at, RunTask.queued_at)))
            .join(RunTask.run)
            .where(RunTask.state == step.waiting, Run.state == RunState.RUNNING)
        )
    since = session.scalar(query.where(Run.pinned_worker.is_(None)))
    return max((now - since).total_seconds(), 0.0) if since else 0.0


def find_database_fault(database: Database) -> str | None:
    """Why the database cannot be read, None if it can and has the newest schema."""
    try:
        at, newest = migrate.get_current_revision(database), migrate.get_newest_revision()
    except (SQLAlchemyError, UnavailableError) as error:
        return f"cannot be reached: {type(error).__name__}"
    try:
        migrate.require_known(at)
    except UnavailableError as error:
        return str(error)
    return None if at == newest else f"at schema {at}, the code needs {newest}: run bassline db upgrade"


def find_storage_fault(database: Database) -> str | None:
    """Why nothing can be stored, as far as reading tells; None if nothing is known to be wrong.

    The heartbeats of the workers tell the rest: they are stored every few seconds, and readiness fails without them.
    """
    if database.file is not None:
        free = shutil.disk_usage(database.file.parent).free
        if free < LEAST_BYTES:
            return f"its disk has {free / 1e6:.0f} MB left and needs {LEAST_BYTES / 1e6:.0f}: free some space"
        return None
    with database.connect(read_only=True) as connection:
        is_read_only = connection.exec_driver_sql("SHOW transaction_read_only").scalar_one() == "on"
    return "is read-only: point BASSLINE_DATABASE_URL at the primary server" if is_read_only else None


def find_workers_fault(database: Database) -> str | None:
    """The fault of the workers, None if they work.

    A process with a heartbeat may still receive no messages, so waiting jobs that no worker claims are a fault.
    """
    with database.read() as session:
        now = read_database_time(session)
        alive = workers.find_alive_workers(session)
        if not alive:
            return f"none has reported itself for {workers.ALIVE_S:g} seconds: start `bassline worker`"
        dying = [w for w in alive if workers.is_crashing_repeatedly(w, now)]
        if dying:
            return (
                f"{dying[0].node} keeps dying: {dying[0].crashes} processes in a row ended within "
                f"{workers.STEADY.total_seconds():g} seconds of their start: read its log"
            )
        missing = [queue for queue in queues.ALL if not any(workers.is_consuming(w, queue) for w in alive)]
        if missing:
            return (
                f"none of them consumes {', '.join(missing)}: start `bassline worker --queues {','.join(missing)}`, "
                "or read the log of the one that should"
            )
        if any(w.loading for w in alive):
            return None
        for step, wanted in (
            (None, "a run to be prepared"),
            (WorkStep.DECODE, "a task to be decoded"),
            (WorkStep.GRADE, "a task to be graded"),
        ):
            if compute_longest_wait_s(session, step, now) > DEAF_S and not _is_busy(session, step, now):
                return f"deaf: {wanted} has waited over {DEAF_S:g} seconds and no worker has started such a job since"
    return None


def _is_busy(session: Session, step: WorkStep | None, now: dt.datetime) -> bool:
    """Whether a job of the step is running, or any task ended within the last DEAF_S seconds.

    A worker that checks a dataset's solutions prepares a run, and keeps what is to be graded waiting.
    """
    held = select(BackgroundJob.id).where(BackgroundJob.lease_until > build_database_time(session))
    if step is not WorkStep.DECODE and session.scalar(held.limit(1)) is not None:
        return True
    lately = RunTask.finished_at >= now - dt.timedelta(seconds=DEAF_S)
    in_hand = RunTask.state.in_(IN_HAND[step])
    return session.scalar(select(RunTask.id).where(or_(in_hand, lately)).limit(1)) is not None
