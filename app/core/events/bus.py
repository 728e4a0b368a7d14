"""The live stream of a run: ring buffers in memory for one process, and Redis Streams for several.

Events serve live views only: no result depends on them. So no method raises when Redis is unreachable: publishing does
nothing, reading returns [].
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import redis
import structlog
from redis.backoff import NoBackoff
from redis.retry import Retry

from app.core.events.event_types import STATE
from app.core.settings import MEMORY_BROKER
from app.core.states import OPEN_RUN_STATES, RunState

MAX_EVENTS = 5000
MAX_BUFFERED_RUNS = 64  # whose events a process keeps in memory
EXPIRE_S = 900  # after the last event of a run that is open
ENDED_EXPIRE_S = 120  # after the end of a run: its pages and answers come from the database then
LISTENER_S = 10  # a reader that waits counts as listening for so long: twice as long as it waits for an event
SILENT_S = 2.0  # without another try after a failure: a Redis that hangs must slow down neither decoding nor readers
BLOCK_S = 1.0  # that one command waits for events; its reader must notice soon that Redis hangs
BEFORE_FIRST = "0-0"
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened in a run. `id` orders events and is where a reader resumes."""

    id: str
    type: str
    data: Mapping[str, Any]


def is_end(event_type: str, data: Mapping[str, Any]) -> bool:
    """Whether the event says that its run has ended."""
    return event_type == STATE and RunState(data["state"]) not in OPEN_RUN_STATES


@dataclass(slots=True)
class _Stream:
    """The events of a run in memory, by number, and until when (time.monotonic) they are kept."""

    events: deque[tuple[int, Event]]
    expires_at: float


class MemoryBus:
    """For the embedded form: a ring buffer of events per run and one condition."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._streams: OrderedDict[uuid.UUID, _Stream] = OrderedDict()
        self._listeners: dict[uuid.UUID, float] = {}
        self._last = 0

    def publish(self, run_id: uuid.UUID, event_type: str, data: Mapping[str, Any]) -> bool:
        """Adds an event to the run's buffer. Returns whether anybody waits for events of the run."""
        now = time.monotonic()
        with self._changed:
            # Ids follow the clock, so that a reader can resume with an id from before a restart.
            self._last = max(self._last + 1, time.time_ns() // 1000)
            stream = self._streams.setdefault(run_id, _Stream(deque(maxlen=MAX_EVENTS), 0.0))
            stream.events.append((self._last, Event(f"{self._last}-0", event_type, dict(data))))
            stream.expires_at = now + (ENDED_EXPIRE_S if is_end(event_type, data) else EXPIRE_S)
            self._streams.move_to_end(run_id)
            for expired in [key for key, found in self._streams.items() if found.expires_at <= now]:
                del self._streams[expired]
            while len(self._streams) > MAX_BUFFERED_RUNS:
                self._streams.popitem(last=False)
            self._changed.notify_all()
            return self._listeners.get(run_id, -LISTENER_S) + LISTENER_S > now

    def read(self, run_id: uuid.UUID, after: str, wait_s: float) -> list[Event]:
        """Events after the id `after` (BEFORE_FIRST: all), waiting up to `wait_s` seconds for one; [] if none came."""
        seen = int(after.split("-", maxsplit=1)[0])
        with self._changed:
            if wait_s > 0:
                now = time.monotonic()
                lately = {key: at for key, at in self._listeners.items() if at + LISTENER_S > now}
                self._listeners = lately | {run_id: now}
            self._changed.wait_for(lambda: bool(self._list_after(run_id, seen)), timeout=wait_s)
            return self._list_after(run_id, seen)

    def forget(self, run_id: uuid.UUID) -> None:
        """Drops the run's buffer, which holds the text of its samples."""
        with self._changed:
            self._streams.pop(run_id, None)

    def _list_after(self, run_id: uuid.UUID, seen: int) -> list[Event]:
        stream = self._streams.get(run_id)
        if stream is None or stream.events[-1][0] <= seen:
            return []
        return [event for number, event in stream.events if number > seen]


class RedisBus:
    """For the stack: one Redis stream per run, capped and expiring."""

    def __init__(self, url: str) -> None:
        connect = partial(redis.Redis.from_url, url, retry=Retry(NoBackoff(), 0), protocol=2)
        # Publishing happens between rounds of decoding, on the sample's clock.
        self._writer = connect(socket_timeout=0.5, socket_connect_timeout=0.5)
        # Longer than a command waits, so that waiting for events is not mistaken for a dead connection.
        self._reader = connect(socket_timeout=2 * BLOCK_S, socket_connect_timeout=BLOCK_S)
        self._no_writes_until = 0.0
        self._no_reads_until = 0.0

    def publish(self, run_id: uuid.UUID, event_type: str, data: Mapping[str, Any]) -> bool:
        """Adds an event to the run's Redis stream. Returns whether anybody waits for events of the run."""
        if time.monotonic() < self._no_writes_until:
            return False
        try:
            with self._writer.pipeline(transaction=False) as pipe:
                fields: Any = {"type": event_type, "data": json.dumps(data)}
                pipe.xadd(self._build_key(run_id), fields, maxlen=MAX_EVENTS, approximate=True)
                pipe.expire(self._build_key(run_id), ENDED_EXPIRE_S if is_end(event_type, data) else EXPIRE_S)
                pipe.exists(self._build_listener_key(run_id))
                return bool(pipe.execute()[-1])
        except redis.RedisError as error:
            self._no_writes_until = time.monotonic() + SILENT_S
            log.warning("events are not published", seconds=SILENT_S, error=str(error))
            return False

    def read(self, run_id: uuid.UUID, after: str, wait_s: float) -> list[Event]:
        """Events after the id `after`, waiting up to `wait_s` seconds for one."""
        until = time.monotonic() + wait_s
        while True:
            left_s = max(until - time.monotonic(), 0.0)
            if (no_reads_s := self._no_reads_until - time.monotonic()) > 0:
                time.sleep(min(left_s, no_reads_s))
                return []
            events = self._read_once(run_id, after, min(left_s, BLOCK_S))
            if events or left_s <= BLOCK_S:
                return events

    def _read_once(self, run_id: uuid.UUID, after: str, wait_s: float) -> list[Event]:
        block = max(1, int(wait_s * 1000)) if wait_s > 0 else None
        try:
            with self._reader.pipeline(transaction=False) as pipe:
                if block is not None:
                    pipe.set(self._build_listener_key(run_id), 1, ex=LISTENER_S)
                pipe.xread({self._build_key(run_id): after}, block=block)
                answer: Any = pipe.execute()[-1]
        except redis.RedisError as error:
            self._no_reads_until = time.monotonic() + SILENT_S
            log.warning("events cannot be read", seconds=SILENT_S, error=str(error))
            return []
        rows = [row for _, entries in answer or () for row in entries]
        return [Event(key.decode(), fields[b"type"].decode(), json.loads(fields[b"data"])) for key, fields in rows]

    def forget(self, run_id: uuid.UUID) -> None:
        """Drops the run's Redis stream. A stream that cannot be dropped now expires by itself."""
        try:
            self._writer.delete(self._build_key(run_id))
        except redis.RedisError as error:
            log.warning("events are not dropped", error=str(error))

    @staticmethod
    def _build_key(run_id: uuid.UUID) -> str:
        return f"bassline:events:{run_id}"

    @staticmethod
    def _build_listener_key(run_id: uuid.UUID) -> str:
        return f"bassline:listeners:{run_id}"


EventBus: TypeAlias = MemoryBus | RedisBus


def create_event_bus(url: str) -> EventBus:
    """The bus behind a URL: memory:// or redis://..."""
    return MemoryBus() if url.startswith(MEMORY_BROKER) else RedisBus(url)
