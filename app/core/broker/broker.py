"""Messages that say "there is work": queues in memory for one process, and Redis for several.

A message may be lost or delivered twice: the row decides.
"""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from app.core.broker import queues
from app.core.settings import Settings

if TYPE_CHECKING:
    from app.core.broker.celery_app import CeleryBroker

Message = tuple[str, uuid.UUID]
"""(name of the Celery task, id of the row: a run, a job of a run or a background job)."""


class MemoryBroker:
    """For the embedded form: a queue of messages per name and one condition. Messages die with the process."""

    shared = False  # messages reach no worker of another process

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queues: dict[str, deque[Message]] = {name: deque() for name in queues.ALL}

    def send(self, messages: Iterable[Message], queue: str) -> None:
        """Sends the messages, in this order."""
        with self._changed:
            self._queues[queue].extend(messages)
            self._changed.notify_all()

    def count_messages(self, queue: str) -> int:
        """How many messages wait in a queue."""
        return len(self._queues[queue])

    def find_fault(self) -> None:
        """Why the broker cannot be reached; None if it can."""

    def get(self, names: Sequence[str], wait_s: float) -> Message | None:
        """The next message of the first of these queues that has one; None if none comes within `wait_s` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: any(self._queues[name] for name in names), wait_s)
            return next((self._queues[name].popleft() for name in names if self._queues[name]), None)


Broker: TypeAlias = "MemoryBroker | CeleryBroker"


def create_broker(settings: Settings) -> Broker:
    """The broker that the settings name. Connects to nothing yet."""
    if settings.embedded:
        return MemoryBroker()
    from app.core.broker.celery_app import CeleryBroker  # noqa: PLC0415 (the embedded form needs no Celery)

    return CeleryBroker(settings)
