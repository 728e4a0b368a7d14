"""The broker of the stack: Celery's, on Redis."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import structlog
from kombu import Connection
from kombu.exceptions import OperationalError
from kombu.pools import connections, producers
from redis.exceptions import RedisError

from app.core.broker.broker import Message
from app.core.broker.celery_app import celery_app, configure
from app.core.settings import Settings

UNREACHABLE = (OperationalError, RedisError, OSError)
# For sending: a Redis that hangs accepts connections, and does not answer. Workers keep the longer timeouts of
# celery_app.configure, because they block until a message comes.
TIMEOUTS: dict[str, Any] = {
    **{"socket_timeout": 1, "socket_connect_timeout": 1, "health_check_interval": 0},
    **{"max_retries": 0, "interval_start": 0, "interval_step": 0, "interval_max": 0},
}
SILENT_S = 2.0  # without another try after a failure, so that not every request waits for the timeout
log = structlog.get_logger(__name__)


class CeleryBroker:
    """Sends messages by Celery; configures this process's Celery application. Waits a second for Redis, not longer."""

    shared = True

    def __init__(self, settings: Settings) -> None:
        configure(settings)
        self._silent_until = 0.0

    def send(self, messages: Iterable[Message], queue: str) -> None:
        """Sends the messages, in this order."""
        try:
            with producers[self._make_connection()].acquire(block=True) as producer:
                if time.monotonic() < self._silent_until:
                    return  # logged when it failed
                for task, row_id in messages:
                    celery_app.send_task(task, args=[str(row_id)], queue=queue, producer=producer, retry=False)
        except UNREACHABLE as error:
            self._silent_until = time.monotonic() + SILENT_S
            log.warning("broker unreachable; the reaper sends again", queue=queue, error=str(error))

    def count_messages(self, queue: str) -> int | None:
        """How many messages wait in a queue."""
        try:
            with self._make_connection() as connection:
                channel: Any = connection.default_channel
                # Not passive: kombu 5.7 then looks for the queue without our key prefix and does not find it.
                return int(channel.queue_declare(queue).message_count)
        except UNREACHABLE:
            return None

    def find_fault(self) -> str | None:
        """Why the broker cannot be reached; None if it can."""
        if time.monotonic() < self._silent_until:
            return "cannot be reached: it did not answer a moment ago"
        try:
            with connections[self._make_connection()].acquire(block=True) as connection:
                channel: Any = connection.default_channel
                channel.client.ping()
        except UNREACHABLE as error:
            self._silent_until = time.monotonic() + SILENT_S
            return f"cannot be reached: {type(error).__name__}"
        return None

    @staticmethod
    def _make_connection() -> Connection:
        return celery_app.connection_for_write(transport_options=TIMEOUTS)
