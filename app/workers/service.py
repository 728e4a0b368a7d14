"""The workers table: each process reports itself, and a page, readiness and the reaper read it."""

from __future__ import annotations

import datetime as dt
import os
import socket
from collections.abc import Sequence

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from app.core.context import Context
from app.core.db.clock import build_database_time, read_database_time
from app.core.db.threads import RepeatingThread
from app.core.db.types import get_utc_time
from app.workers.models import MODEL_LENGTH, Worker

JOB_BEATS_PER_REPORT = 2  # of a job between two reports of its worker
ALIVE_S = 60.0  # a worker reports itself several times within this
FORGET_AFTER = dt.timedelta(days=1)
STEADY = dt.timedelta(seconds=60)  # a process that died before it was this old counts as a crash of its node
SILENT_LEASES = 2  # after this many leases of silence a worker or a message is lost
MAX_CRASHES = 3  # in a row: more than a worker killed by chance
QUEUES_VARIABLE = "BASSLINE_WORKER_QUEUES"  # set by `bassline worker` for its child, to which Celery does not pass it


def compute_silence_limit(ctx: Context) -> dt.timedelta:
    """How long a worker may be silent, or a message on its way, before it counts as lost."""
    return dt.timedelta(seconds=SILENT_LEASES * ctx.settings.lease_s)


def list_workers(session: Session) -> Sequence[Worker]:
    """Workers seen within a day, the latest first. One not seen for a minute is presumed gone."""
    since = build_database_time(session, -FORGET_AFTER.total_seconds())
    return session.scalars(
        select(Worker).where(Worker.last_seen_at >= since).order_by(Worker.last_seen_at.desc())
    ).all()


def is_alive(worker: Worker, now: dt.datetime) -> bool:
    """Whether it reported itself lately and has not stopped since."""
    return worker.stopped_at is None and (now - worker.last_seen_at).total_seconds() <= ALIVE_S


def find_alive_workers(session: Session) -> list[Worker]:
    """The workers with a recent heartbeat, by the clock of the database, which wrote it."""
    now = read_database_time(session)
    return [worker for worker in list_workers(session) if is_alive(worker, now)]


def is_crashing_repeatedly(worker: Worker, now: dt.datetime) -> bool:
    """Whether the last processes of its node died early, and this one is as young."""
    return worker.crashes >= MAX_CRASHES and now - worker.started_at < STEADY


def is_consuming(worker: Worker, queue: str) -> bool:
    """Whether it takes messages of the queue."""
    return worker.queues is None or queue in worker.queues


def register(ctx: Context, node: str | None, queues: list[str] | None) -> None:
    """Reports the start of this process and how many of its node died before it; `node` None keeps no such count."""
    with ctx.database.heartbeats.session() as session:
        now = read_database_time(session)
        same = select(Worker).where(Worker.node == node, Worker.node.is_not(None))
        before = session.scalar(same.order_by(Worker.started_at.desc()).limit(1))
        crashes = 0
        if before and before.stopped_at is None and before.last_seen_at - before.started_at < STEADY:
            crashes = before.crashes + 1
        # A restarted container may have the host name and process id of its predecessor.
        row = session.get(Worker, ctx.worker_name) or Worker(name=ctx.worker_name)
        row.host, row.pid, row.node, row.queues = socket.gethostname(), os.getpid(), node, queues
        row.started_at = row.last_seen_at = now
        row.crashes, row.stopped_at = crashes, None
        session.add(row)


def report_stop(ctx: Context, node: str | None = None) -> None:
    """Reports that this process ends on request, or that a node accepts no new messages, while it may still finish a
    task."""
    stopped = Worker.name == ctx.worker_name if node is None else Worker.node == node
    with ctx.database.session() as session:
        session.execute(update(Worker).where(stopped, Worker.stopped_at.is_(None)).values(stopped_at=get_utc_time()))


def report(ctx: Context) -> None:
    """Reports that this process is alive, and which models it holds or loads."""
    with ctx.database.heartbeats.session() as session:
        row = session.get(Worker, ctx.worker_name) or Worker(
            name=ctx.worker_name, host=socket.gethostname(), pid=os.getpid()
        )
        row.last_seen_at, row.loading = build_database_time(session), ctx.engines.get_loading_target()
        targets, row.device = ctx.engines.describe_loaded() or ([], None)
        row.model = ", ".join(targets)[:MODEL_LENGTH] or None
        session.add(row)


def make_heartbeat_thread(ctx: Context, node: str | None = None, queues: list[str] | None = None) -> RepeatingThread:
    """A thread that registers this process and then reports it regularly, also if the database is unreachable at the
    start."""
    interval_s = JOB_BEATS_PER_REPORT * ctx.settings.heartbeat_s
    is_registered = False

    def send_beat() -> float:
        nonlocal is_registered
        if not is_registered:
            register(ctx, node, queues)
            is_registered = True
        report(ctx)
        return interval_s

    return RepeatingThread("worker-heartbeat", send_beat, retry_s=interval_s)
