"""Events about a task for live views: its changes of state, and its progress while it is decoded."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Any

from app.context import Context
from app.events import event_types
from app.runs.models import Run
from app.samples.origins import pieces
from app.states import TaskState
from decoding.request import Update
from evaluation.datasets import Task

TOKENS_EVERY_S = 0.25
TEXT_EVERY_S = 0.1


def task_changed(
    ctx: Context, run_id: uuid.UUID, task_id: str, position: int, state: TaskState, error: str | None = None
) -> None:
    """Publishes that a task of the run changed state, and why if it failed."""
    ctx.bus.publish(
        run_id, event_types.TASK, {"task_id": task_id, "position": position, "state": state, "error": error}
    )


class LiveUpdates:
    """Publishes the engine's updates of a task at a limited rate: token counts, or with `texts` the samples' texts."""

    def __init__(self, ctx: Context, run: Run, task: Task, *, texts: bool) -> None:
        self._ctx, self._run, self._task = ctx, run, task
        self._texts = texts
        self._every_s = TEXT_EVERY_S if self._texts else TOKENS_EVERY_S
        self._latest: dict[int, Update] = {}
        self._origins: dict[int, str] = {}
        self._ends: dict[int, list[int]] = {}
        self._changed: set[int] = set()
        self._published = 0.0

    def __call__(self, updates: Sequence[Update]) -> None:
        """Takes the updates of a round, and publishes if the interval has passed."""
        for u in updates:
            self._latest[u.index] = u
            self._origins[u.index] = self._origins.get(u.index, "") + letters(u.origins)
            self._ends.setdefault(u.index, []).extend(u.ends)
            self._changed.add(u.index)
        now = time.monotonic()
        ended = any(u.finish_reason for u in updates)
        if now - self._published >= self._every_s or (ended and self._texts):
            self._published = now
            self._publish()

    def _publish(self) -> None:
        latest = self._latest.values()
        data: dict[str, Any] = {"task_id": self._task.task_id}
        if self._texts:
            data["samples"] = [
                {
                    "index": u.index,
                    "text": u.text,
                    "origins": self._origins[u.index],
                    "pieces": pieces(u.text, self._ends[u.index], self._origins[u.index]),
                    "n_tokens": u.n_tokens,
                    "mean_logprob": u.mean_logprob,
                    "elapsed_s": u.elapsed_s,
                    "finish_reason": u.finish_reason,
                }
                for u in latest
                if u.index in self._changed
            ]
        else:
            data |= {
                "elapsed_s": max(u.elapsed_s for u in latest),
                "tokens": sum(u.n_tokens for u in latest),
                "finished": sum(u.finish_reason is not None for u in latest),
            }
        self._ctx.bus.publish(self._run.id, event_types.TEXT if self._texts else event_types.TOKENS, data)
        self._changed.clear()


def letters(origins: Sequence[str]) -> str:
    """Who supplied each token, as stored: d for the drafter, t for the target."""
    return "".join("d" if origin == "draft" else "t" for origin in origins)
