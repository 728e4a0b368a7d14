"""The broker of the embedded form: kombu's queues in memory, but always the most urgent first.

kombu gives every queue an equal chance; a completion would then wait for a task of the batch every other time.
"""

from __future__ import annotations

from queue import Empty
from typing import Any

from kombu.transport import memory
from kombu.utils.scheduling import FairCycle


class _InOrder(FairCycle):
    """Asks the queues in the order in which they are listed, from the first one every time."""

    def get(self, callback: Any, **kwargs: Any) -> Any:
        """The next message."""
        self.pos = 0
        return super().get(callback, **kwargs)


class _Channel(memory.Channel):
    def _reset_cycle(self) -> None:
        self._cycle = _InOrder(self._get_and_deliver, self._active_queues, Empty)


class Transport(memory.Transport):
    """What `broker_transport` names."""

    Channel = _Channel
