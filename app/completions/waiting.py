"""Waits for a completion on behalf of one client, and cancels it once the client has disconnected."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator

import structlog
from sqlalchemy.exc import DBAPIError

from app.context import Context
from app.db.database import error_summary
from app.errors import BasslineError, Conflict, NotFound
from app.events.bus import Event
from app.http.disconnect import Left
from app.jobs import deadlines, reaper
from app.runs import event_stream, transitions

BEAT_S = 0.25  # between looks whether the client is still there
KEEP_S = 1.0  # between looks at the worker's lease
log = structlog.get_logger(__name__)


class ClientLeft(BasslineError):  # noqa: N818 (named like an event)
    """The client disconnected before its answer was ready. Only the log shows the status."""

    status = 408
    code = "client_left"


def wait(ctx: Context, run_id: uuid.UUID, left: Left) -> Iterator[Event | None]:
    """The run's events to its end, None at times without one. Cancels the run if its reader stops before.

    Sees to it that the completion ends with its budget, whatever becomes of its worker. Raises ClientLeft once `left`
    returns true.
    """
    try:
        keep_at = time.monotonic()
        for event in event_stream.follow(ctx, run_id, beat_s=BEAT_S):
            if left():
                raise ClientLeft("the client has left: the completion is cancelled")
            if time.monotonic() >= keep_at:
                keep_at = time.monotonic() + min(_keep(ctx, run_id), KEEP_S)
            yield event
    finally:
        cancel(ctx, run_id)


def _keep(ctx: Context, run_id: uuid.UUID) -> float:
    """Has lost jobs decoded again, and ends those whose budget is over; returns when to call again, in seconds."""
    try:
        reaper.return_expired(ctx, run_id)
        return deadlines.keep(ctx, run_id)
    except DBAPIError as error:  # the next look may find it back
        log.warning("the deadline could not be kept", run=str(run_id), error=error_summary(error))
        return BEAT_S


def cancel(ctx: Context, run_id: uuid.UUID) -> None:
    """Cancels the run unless it has ended.

    A streamed response calls it when it is closed: if the client leaves before the first byte, the generator has not
    started, and its `finally` does not run.
    """
    with contextlib.suppress(Conflict, NotFound):
        transitions.cancel(ctx, run_id)
