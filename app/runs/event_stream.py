"""A run's events as a server-sent event stream, for pages and API clients alike."""

from __future__ import annotations

import json
import math
import re
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

from flask import Response

from app.core.context import Context
from app.core.errors import BadInputError, BusyError
from app.core.events import event_types
from app.core.events.bus import BEFORE_FIRST, Event, is_end
from app.core.events.texts import TextAssembler
from app.core.states import OPEN_RUN_STATES, RunState
from app.runs.models import Run

BEAT_S = 5.0
LONGEST_S = 300.0
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
TextForm = Literal["whole", "delta"]
_ID = re.compile("[0-9]{1,19}-[0-9]{1,19}")  # two numbers of 64 bits, to Redis


def stream_events(
    ctx: Context, run_id: uuid.UUID, after: str | None, caller: str, text: TextForm = "whole"
) -> Response:
    """The stream for `caller` after the event id `after` (None: from the beginning), texts as in `follow_events`.

    Raises BadInputError, or BusyError if the caller's share of the live views or all of them are open.
    """
    if after is not None and not _ID.fullmatch(after):
        raise BadInputError(
            f"Last-Event-ID is {after[:40]!r}: give the id of an event, or leave it out", "Last-Event-ID"
        )
    if not ctx.views.acquire(caller):
        raise BusyError("too many live views are open: close one of yours, or poll the run's state")
    events = follow_events(ctx, run_id, after or BEFORE_FIRST, text=text)
    return build_stream_response(format_frames(events, LONGEST_S), partial(ctx.views.release, caller))


def build_stream_response(frames: Iterator[str], on_close: Callable[[], object]) -> Response:
    """Server-sent events. Calls `on_close` once the stream has ended or its client has disconnected."""
    answer = Response(frames, mimetype="text/event-stream", headers=HEADERS)
    answer.call_on_close(on_close)
    return answer


def follow_events(
    ctx: Context, run_id: uuid.UUID, after: str = BEFORE_FIRST, beat_s: float | None = None, *, text: TextForm = "whole"
) -> Iterator[Event | None]:
    """Events until the run has ended; None whenever nothing happened for `beat_s` (BEAT_S) seconds.

    The texts of a completion come as events of type `text`, or with text="delta" of type `text_delta`. The last event
    is the final state; it comes from the database if the stream has lost it.
    """
    texts = None if text == "delta" else TextAssembler()
    if texts is not None and after != BEFORE_FIRST:
        for event in ctx.bus.read(run_id, BEFORE_FIRST, 0.0):  # what a resumed reader's next deltas continue
            if _parse_event_id(event.id) <= _parse_event_id(after):
                texts.expand(event)
    while True:
        events = ctx.bus.read(run_id, after, BEAT_S if beat_s is None else beat_s)
        for event in events:
            if (shown := texts.expand(event) if texts is not None else event) is not None:
                yield shown
            after = event.id
            if is_end(event.type, event.data) and _is_last_end(ctx, run_id, event):
                return
        if events:
            continue
        state, error = _read_run_state(ctx, run_id)
        if state not in OPEN_RUN_STATES:
            yield Event(after, event_types.STATE, {"state": state, "error": error})
            return
        yield None


def _is_last_end(ctx: Context, run_id: uuid.UUID, end: Event) -> bool:
    """False for an earlier end of a resumed run: the stream still holds it, whether or not the run has ended again."""
    if _read_run_state(ctx, run_id)[0] in OPEN_RUN_STATES:
        return False
    return all(later.type != event_types.STATE for later in ctx.bus.read(run_id, end.id, 0.0))


def _parse_event_id(event_id: str) -> tuple[int, ...]:
    return tuple(map(int, event_id.split("-")))


def format_frames(events: Iterator[Event | None], longest_s: float = math.inf) -> Iterator[str]:
    """The events as text. Ends after `longest_s`: a browser then reconnects with Last-Event-ID.

    None becomes a comment, because a server notices that its client has disconnected only when it writes.
    """
    ends = time.monotonic() + longest_s
    yield "retry: 1000\n\n"
    for event in events:
        if event is None:
            yield ": nothing new\n\n"
        else:
            yield f"id: {event.id}\nevent: {event.type}\ndata: {json.dumps(event.data)}\n\n"
        if time.monotonic() > ends:
            return


def _read_run_state(ctx: Context, run_id: uuid.UUID) -> tuple[RunState, str | None]:
    with ctx.database.read() as session:
        run = session.get(Run, run_id)
        return (run.state, run.error) if run else (RunState.FAILED, "the run has been deleted")
