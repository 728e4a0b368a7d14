"""A queue per model and class of device: completions of a model wait there for the workers that declare it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple, Self
from urllib.parse import quote, unquote

from app.core.broker.queues import GPU_INTERACTIVE

DEVICE_CLASSES = ("cuda", "cpu")  # the fastest first
_NAME = re.compile(rf"{re.escape(GPU_INTERACTIVE)}\.({'|'.join(DEVICE_CLASSES)})\.([\w.~%-]+)", re.ASCII)


class ModelQueue(NamedTuple):
    """The completions of one model (a reference, as runs name it) for workers with one class of device."""

    device: str
    model: str

    @property
    def name(self) -> str:
        """The queue's name, e.g. `gpu.interactive.cpu.smollm2-135m`.

        The reference is percent-encoded: it may contain a comma, which separates names in Celery's --queues, or any
        other character, and two references must never share a queue.
        """
        return f"{GPU_INTERACTIVE}.{self.device}.{quote(self.model, safe='')}"

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """The queue of this name; None for a name that `name` never gives."""
        found = _NAME.fullmatch(name)
        queue = cls(found[1], unquote(found[2])) if found else None
        return queue if queue and queue.name == name else None


def parse_all(names: Iterable[str]) -> list[ModelQueue]:
    """The queues of models among these names of queues, in their order."""
    return [queue for name in names if (queue := ModelQueue.parse(name))]
