"""Waits for a completion on behalf of one client, and cancels it once the client has disconnected."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator

import structlog
from sqlalchemy import select

from app.completions import deadlines
from app.core.context import Context
from app.core.db.database import OUTAGES, summarize_error
from app.core.errors import BasslineError, BusyError, ConflictError, NotFoundError
from app.core.events.bus import Event
from app.core.states import OPEN_RUN_STATES
from app.jobs import reaper
from app.runs import event_stream, transitions
from app.runs.models import Run
from app.web.http.disconnect import ClientDisconnected

BEAT_S = 0.25  # between checks that the client is still connected
LOOK_S = 1.0  # between looks at the worker's lease, at most
log = structlog.get_logger(__name__)


class ClientDisconnectedError(BasslineError):
    """The client disconnected before its answer was ready. Only the log shows the status."""

    status = 408
    code = "client_disconnected"


def acquire_slot(ctx: Context) -> contextlib.ExitStack:
    """One of the completions that this process may wait for at a time, until the block ends. Raises BusyError.

    Waiting keeps a thread of the web process. A streamed response takes the slot along: it closes `slot.pop_all()`.
    """
    if not ctx.completion_slots.acquire(blocking=False):
        raise BusyError("too many completions are open: try again in a moment")
    slot = contextlib.ExitStack()
    slot.callback(ctx.completion_slots.release)
    return slot


def follow_completion(ctx: Context, run_id: uuid.UUID, disconnected: ClientDisconnected) -> Iterator[Event | None]:
    """The run's events to its end, None at times without one. Cancels the run if its reader stops before.

    Ends the completion when its budget is over, even if its worker is lost. Raises ClientDisconnectedError
    once `disconnected` returns true.
    """
    try:
        look_at = time.monotonic()
        for event in event_stream.follow_events(ctx, run_id, beat_s=BEAT_S):
            if disconnected():
                raise ClientDisconnectedError("the client has disconnected: the completion is cancelled")
            if time.monotonic() >= look_at:
                look_at = time.monotonic() + min(_enforce_deadline(ctx, run_id), LOOK_S)
            yield event
    finally:
        cancel(ctx, run_id)


def _enforce_deadline(ctx: Context, run_id: uuid.UUID) -> float:
    """Has lost jobs decoded again, and ends those whose budget is over; returns when to call again, in seconds."""
    try:
        reaper.return_expired_of_run(ctx, run_id)
        return deadlines.enforce_deadline(ctx, run_id)
    except OUTAGES as error:  # the database may be back by the next attempt
        log.warning("the deadline was not enforced", run=str(run_id), error=summarize_error(error))
        return BEAT_S


def cancel(ctx: Context, run_id: uuid.UUID) -> None:
    """Cancels the run unless it has ended: then it only reads, because every answer ends with this call.

    A streamed response calls it when closed, since a generator that never started runs no `finally`.
    """
    with ctx.database.read() as session:
        is_open = session.scalar(select(Run.id).where(Run.id == run_id, Run.state.in_(OPEN_RUN_STATES)))
    if is_open:
        with contextlib.suppress(ConflictError, NotFoundError):
            transitions.cancel(ctx, run_id)
