"""The stack's Celery application, and the broker that sends by it.

Importing it never imports torch: task bodies import what they need. One for each process: Celery's spawned children
import it by name, and its tasks are registered with it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import structlog
from celery import Celery
from kombu import Connection, Queue
from kombu.exceptions import OperationalError
from kombu.pools import connections, producers
from redis.exceptions import RedisError

from app.core.broker import queues
from app.core.broker.broker import Message
from app.core.errors import BadInputError
from app.core.settings import MAX_BUDGET_S, Settings

GRACE_S = 300  # model load, storing and shutdown around the longest budget
HARD_LIMIT_S = int(MAX_BUDGET_S) + GRACE_S
VISIBILITY_S = 3 * HARD_LIMIT_S  # Redis delivers an unacknowledged message again; this must outlast the longest job
UNREACHABLE = (OperationalError, RedisError, OSError)
# For sending: a Redis that hangs accepts connections, and does not answer. Workers keep the longer timeouts of
# `configure`, because they block until a message comes.
TIMEOUTS: dict[str, Any] = {
    **{"socket_timeout": 1, "socket_connect_timeout": 1, "health_check_interval": 0},
    **{"max_retries": 0, "interval_start": 0, "interval_step": 0, "interval_max": 0},
}
SILENT_S = 2.0  # without another try after a failure, so that not every request waits for the timeout
log = structlog.get_logger(__name__)

celery_app = Celery("bassline", include=["app.jobs.celery_tasks", "app.workers.signals"])
celery_app.conf.update(
    task_serializer="json",
    accept_content=["json"],
    task_ignore_result=True,  # the row is the result
    result_backend=None,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_acks_on_failure=True,  # failures are handled by the row's state, not by redelivery
    task_acks_on_timeout=True,
    worker_prefetch_multiplier=1,
    worker_pool="prefork",
    worker_concurrency=1,
    worker_pool_start_method="spawn",  # CUDA does not survive a fork
    worker_proc_alive_timeout=120,  # a child that imports torch needs longer than the default of 4 s
    # The message may then come twice, which the row's lease makes harmless. Cancelling would kill a loaded model.
    worker_cancel_long_running_tasks_on_connection_loss=False,
    worker_soft_shutdown_timeout=30,
    worker_enable_soft_shutdown_on_idle=True,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,  # keep trying: the broker may be down for an hour
    task_publish_retry=True,
    task_time_limit=HARD_LIMIT_S,
    task_queues=[Queue(name, routing_key=name) for name in queues.ALL],
    task_default_queue=queues.EXEC,
    task_default_routing_key=queues.EXEC,
    task_create_missing_queues=False,  # a mistyped queue name fails instead of waiting for ever
)


def configure(settings: Settings) -> None:
    """Points Celery at the broker of the settings."""
    celery_app.conf.update(
        broker_url=settings.broker_url,
        broker_transport_options={
            "visibility_timeout": VISIBILITY_S,
            "unacked_restore_interval": 5,
            "unacked_restore_throttle": 1,
            "queue_order_strategy": "priority",
            "global_keyprefix": "bassline:",
            "socket_timeout": 30,
            "socket_keepalive": True,
            "health_check_interval": 25,
        },
        visibility_timeout=VISIBILITY_S,
    )
    celery_app.set_default()


def require_broker(settings: Settings, command: str) -> None:
    """Raises BadInputError if a part of the stack is started on the in-memory broker, which no other process can
    reach."""
    if settings.embedded:
        raise BadInputError(
            f"bassline {command} needs a broker that other processes can reach: set BASSLINE_BROKER_URL "
            "to redis://HOST:6379/0, or use `bassline serve`",
            "BASSLINE_BROKER_URL",
        )


class CeleryBroker:
    """Sends messages by Celery; configures this process's Celery application. Waits a second for Redis, not longer."""

    shared = True

    def __init__(self, settings: Settings) -> None:
        configure(settings)
        self._silent_until = 0.0

    def send(self, messages: Iterable[Message], queue: str) -> None:
        """Sends the messages, in this order. An unreachable broker is logged: the reaper sends them again."""
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
        """How many messages wait in a queue; None if the broker cannot be reached."""
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
