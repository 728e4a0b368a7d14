"""Which models workers declare (`bassline worker --models`): the queues of models that they consume.

A worker's row lists its queues, so the declaration and what Celery consumes cannot contradict each other.
"""

from __future__ import annotations

import datetime as dt
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from sqlalchemy import ColumnElement, and_, select
from sqlalchemy.orm import Session

from app.core.broker.model_queues import ModelQueue, parse_all
from app.core.context import Context
from app.core.db.clock import database_time
from app.workers.models import Worker
from app.workers.service import FORGET_AFTER

SILENT_LEASES = 2  # after this many leases of silence a worker or a message is lost


def silence_limit(ctx: Context) -> dt.timedelta:
    """How long a worker may be silent, or a message on its way, before it counts as lost."""
    return dt.timedelta(seconds=SILENT_LEASES * ctx.settings.lease_s)


def live(ctx: Context, session: Session) -> frozenset[ModelQueue]:
    """The queues of models that a live worker consumes; none where this process's messages reach no other one."""
    if not ctx.broker.shared:
        return frozenset()
    silent_since = database_time(session, -silence_limit(ctx).total_seconds())
    return _consumed(session, and_(Worker.stopped_at.is_(None), Worker.last_seen_at >= silent_since))


def lost(ctx: Context, session: Session) -> frozenset[ModelQueue]:
    """The queues of models that a worker consumed within the last day, and that no live one consumes."""
    if not ctx.broker.shared:
        return frozenset()
    remembered_since = database_time(session, -FORGET_AFTER.total_seconds())
    return _consumed(session, Worker.last_seen_at >= remembered_since) - live(ctx, session)


def device_class() -> str:
    """The class of this machine's device: what `auto` means to an engine.

    Determined in a separate process, because torch would stay in the memory of this one.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as asked:
        return asked.submit(_device_class).result()


def _device_class() -> str:
    from decoding.models.device import pick_device  # noqa: PLC0415 (imports torch)

    return pick_device("auto").type


def _consumed(session: Session, which: ColumnElement[bool]) -> frozenset[ModelQueue]:
    rows = session.scalars(select(Worker.queues).where(which, Worker.queues.is_not(None)))
    return frozenset(queue for names in rows for queue in parse_all(names or ()))
