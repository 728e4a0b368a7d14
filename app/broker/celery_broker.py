"""The broker of the stack: Celery's, on Redis."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import structlog
from kombu.exceptions import OperationalError
from kombu.pools import producers
from redis.exceptions import RedisError

from app.broker.broker import Message
from app.broker.celery_app import add_queue, celery_app, configure
from app.settings import Settings

UNREACHABLE = (OperationalError, RedisError, OSError)
log = structlog.get_logger(__name__)


class CeleryBroker:
    """Sends messages by Celery; configures this process's Celery application."""

    shared = True

    def __init__(self, settings: Settings) -> None:
        configure(settings)

    def send(self, messages: Iterable[Message], queue: str) -> None:
        """Sends the messages, in this order."""
        add_queue(queue)
        try:
            with producers[celery_app.connection_for_write()].acquire(block=True) as producer:
                for task, row_id in messages:
                    celery_app.send_task(task, args=[str(row_id)], queue=queue, producer=producer)
        except UNREACHABLE as error:
            log.warning("broker unreachable; the reaper sends again", queue=queue, error=str(error))

    def queue_length(self, queue: str) -> int | None:
        """How many messages wait in a queue."""
        try:
            with celery_app.connection_for_write() as connection:
                connection.ensure_connection(max_retries=1, timeout=1)
                channel: Any = connection.default_channel
                # Not passive: kombu 5.7 then looks for the queue without our key prefix and does not find it.
                return int(channel.queue_declare(queue).message_count)
        except UNREACHABLE:
            return None

    def purge(self, queue: str) -> None:
        """Forgets the messages that wait in a queue."""
        try:
            with celery_app.connection_for_write() as connection:
                connection.ensure_connection(max_retries=1, timeout=1)
                channel: Any = connection.default_channel
                channel.queue_purge(queue)
        except UNREACHABLE as error:
            log.warning("broker unreachable; the reaper purges again", queue=queue, error=str(error))

    def fault(self) -> str | None:
        """Why the broker cannot be reached; None if it can."""
        try:
            with celery_app.connection_for_write(connect_timeout=1) as connection:
                connection.ensure_connection(max_retries=1, timeout=1)
        except UNREACHABLE as error:
            return f"cannot be reached: {type(error).__name__}"
        return None
