"""Waiting for a completion on behalf of one client: once it has left, nobody wants the rest of the work."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator

from app.context import Context
from app.errors import BasslineError, Conflict, NotFound
from app.events.bus import Event
from app.http.disconnect import Left
from app.runs import event_stream, transitions

BEAT_S = 1.0


class ClientLeft(BasslineError):  # noqa: N818 (reads as what happened)
    """The client hung up before its answer was ready; nobody reads this, but the log shows the status."""

    status = 408
    code = "client_left"


def wait(ctx: Context, run_id: uuid.UUID, left: Left) -> Iterator[Event | None]:
    """The run's events to its end, None every second without one.

    Cancels the run when whoever listens stops before its end, and raises ClientLeft once `left` says so.
    """
    try:
        for event in event_stream.follow(ctx, run_id, beat_s=BEAT_S):
            if left():
                raise ClientLeft("the client has left: the completion is cancelled")
            yield event
    finally:
        abandon(ctx, run_id)


def abandon(ctx: Context, run_id: uuid.UUID) -> None:
    """Cancels the run unless it has ended.

    A stream needs it when it is closed: a client that leaves before the first frame leaves an iterator that has not
    begun, whose `finally` never runs.
    """
    with contextlib.suppress(Conflict, NotFound):  # it has ended
        transitions.cancel(ctx, run_id)
