"""The broker of the embedded form: kombu's queues in memory, but always the most urgent first, and at once.

kombu gives every queue an equal chance; a completion would then wait for a task of the batch every other time. And it
looks for messages at intervals, which would cost a run more than all else that is done for a task.
"""

from __future__ import annotations

import threading
import time
from queue import Empty
from typing import Any

from kombu.transport import memory
from kombu.utils.scheduling import FairCycle

LOOK_AGAIN_S = 0.25  # at the latest, for what is not signalled: a consumer that was cancelled, a connection closed


class _Signal:
    """Counts the occasions on which some worker may find a message that it had not found or had no room for."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.count = 0

    def give(self) -> None:
        with self._changed:
            self.count += 1
            self._changed.notify_all()

    def wait(self, seen: int, timeout_s: float) -> None:
        """Returns once more than `seen` signals have been given, or after the timeout."""
        with self._changed:
            self._changed.wait_for(lambda: self.count != seen, timeout_s)


_signal = _Signal()


class _InOrder(FairCycle):
    """Asks the queues in the order in which they are listed, from the first one every time."""

    def get(self, callback: Any, **kwargs: Any) -> Any:
        """The next message."""
        self.pos = 0
        return super().get(callback, **kwargs)


class _Channel(memory.Channel):
    def _reset_cycle(self) -> None:
        self._cycle = _InOrder(self._get_and_deliver, self._active_queues, Empty)

    def _put(self, queue: str, message: Any, **kwargs: Any) -> None:
        super()._put(queue, message, **kwargs)
        _signal.give()

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        """Makes room for the next message."""
        super().basic_ack(delivery_tag, multiple)
        _signal.give()

    def basic_reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """The same."""
        super().basic_reject(delivery_tag, requeue)
        _signal.give()


class Transport(memory.Transport):
    """What `broker_transport` names."""

    Channel = _Channel

    def drain_events(self, connection: Any, timeout: float | None = None, **_: Any) -> None:
        """Delivers the next message as soon as there is one and room for it. Raises TimeoutError."""
        cycle: Any = self.cycle
        ends = None if timeout is None else time.monotonic() + timeout
        while True:
            seen = _signal.count
            try:
                cycle.get(self._deliver, timeout=timeout)
            except Empty:
                left = LOOK_AGAIN_S if ends is None else ends - time.monotonic()
                if left <= 0:
                    raise TimeoutError from None
                _signal.wait(seen, min(left, LOOK_AGAIN_S))
            else:
                return
