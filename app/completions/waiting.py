"""Waits for a completion on behalf of one client, and cancels it once the client has disconnected."""

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


class ClientLeft(BasslineError):  # noqa: N818 (named like an event)
    """The client disconnected before its answer was ready. Only the log shows the status."""

    status = 408
    code = "client_left"


def wait(ctx: Context, run_id: uuid.UUID, left: Left) -> Iterator[Event | None]:
    """The run's events to its end, None every second without one. Cancels the run if its reader stops before.

    Raises ClientLeft once `left` returns true.
    """
    try:
        for event in event_stream.follow(ctx, run_id, beat_s=BEAT_S):
            if left():
                raise ClientLeft("the client has left: the completion is cancelled")
            yield event
    finally:
        cancel(ctx, run_id)


def cancel(ctx: Context, run_id: uuid.UUID) -> None:
    """Cancels the run unless it has ended.

    A streamed response calls it when it is closed: if the client leaves before the first byte, the generator has not
    started, and its `finally` does not run.
    """
    with contextlib.suppress(Conflict, NotFound):
        transitions.cancel(ctx, run_id)
