"""Events about a task for live views: its changes of state, and its progress while it is decoded."""

from __future__ import annotations

import time
import uuid
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from app.core.context import Context
from app.core.events import event_types
from app.core.states import TaskState
from app.runs.models import Run
from app.samples.origins import cut_pieces
from decoding.request import Update
from evaluation.datasets import Task

TOKENS_EVERY_S = 0.25
TEXT_EVERY_S = 0.1
UNHEARD_TEXT_EVERY_S = 1.0  # while nobody listens: what one who comes later starts from
SAMPLE_TEXTS_PER_S = 200  # of all samples: each has a hundred bytes beside its text
WHOLE_TEXT_EVERY = 1000  # events: a stream keeps only its last ones (app/core/events/bus.py)


def publish_task_change(
    ctx: Context, run_id: uuid.UUID, task_id: str, position: int, state: TaskState, error: str | None = None
) -> None:
    """Publishes that a task of the run changed state, and why if it failed."""
    ctx.bus.publish(
        run_id, event_types.TASK, {"task_id": task_id, "position": position, "state": state, "error": error}
    )


class SampleProgress:
    """A sample while it is decoded, and how much of its text was published."""

    def __init__(self) -> None:
        self.latest: Update
        self._origins, self._ends = "", list[int]()
        self._published_text, self._n_published_tokens = "", 0

    def add(self, update: Update) -> None:
        """Takes what a round added."""
        self.latest = update
        self._origins += encode_origins(update.origins)
        for end in update.ends:
            self._ends.append(max(end, self._ends[-1]) if self._ends else end)

    def take_delta(self, *, whole: bool = False) -> dict[str, Any]:
        """What was added since the last call, or with `whole` everything, as event_types.TEXT_DELTA_SAMPLE."""
        u, published = self.latest, self._published_text
        start = 0 if whole else min(self._find_published_end(), len(published))
        if not u.text.startswith(published[:start]):  # a stop string was taken back
            start = 0
        first_token = self._find_token_at(start)
        ends = [end - start for end in self._ends[first_token:]]
        first_new_token = self._n_published_tokens if start else 0
        self._published_text, self._n_published_tokens = u.text, len(self._origins)
        return {
            "index": u.index,
            "at": start,
            "pieces": cut_pieces(u.text[start:], ends, self._origins[first_token:]),
            "origins_at": first_new_token,
            "origins": self._origins[first_new_token:],
            "n_tokens": u.n_tokens,
            "mean_logprob": u.mean_logprob,
            "elapsed_s": u.elapsed_s,
            "finish_reason": u.finish_reason,
        }

    def _find_token_at(self, character: int) -> int:
        """The number of the token that this character of the text belongs to.

        Text behind the last end was held back and belongs to the last token. 0 without tokens.
        """
        return max(min(bisect_right(self._ends, character), len(self._ends) - 1), 0)

    def _find_published_end(self) -> int:
        """Where the last published token ends: text after it may belong to the token that follows."""
        if not self._ends:
            return len(self._published_text)
        return self._ends[self._n_published_tokens - 1] if self._n_published_tokens else 0


class LiveUpdates:
    """Publishes the engine's updates of a task at a limited rate: token counts, or with `texts` the samples' texts."""

    def __init__(self, ctx: Context, run: Run, task: Task, *, texts: bool) -> None:
        self._ctx, self._run, self._task = ctx, run, task
        self._texts = texts
        self._samples: dict[int, SampleProgress] = {}
        self._changed: set[int] = set()
        self._published_at = 0.0
        self._n_published = 0
        self._is_heard = True

    def __call__(self, updates: Sequence[Update]) -> None:
        """Takes a round's updates; publishes at intervals, and texts as they end."""
        for u in updates:
            self._samples.setdefault(u.index, SampleProgress()).add(u)
            self._changed.add(u.index)
        now = time.monotonic()
        if now - self._published_at >= self._compute_interval_s():
            self._published_at = now
            if self._texts:
                self._publish_texts(self._changed)
            else:
                self._publish_tokens()
        elif self._texts and (ended := {u.index for u in updates if u.finish_reason}):
            self._publish_texts(ended)

    def _compute_interval_s(self) -> float:
        if not self._texts:
            return TOKENS_EVERY_S
        usual = TEXT_EVERY_S if self._is_heard else UNHEARD_TEXT_EVERY_S
        return max(usual, len(self._changed) / SAMPLE_TEXTS_PER_S)

    def _publish_texts(self, indices: Collection[int]) -> None:
        whole = self._n_published % WHOLE_TEXT_EVERY == 0
        told = sorted(self._samples if whole else indices)
        samples = [self._samples[index].take_delta(whole=whole) for index in told]
        self._publish(event_types.TEXT_DELTA, {"samples": samples})
        self._changed.difference_update(told)

    def _publish_tokens(self) -> None:
        latest = [sample.latest for sample in self._samples.values()]
        data = {
            "elapsed_s": max(u.elapsed_s for u in latest),
            "tokens": sum(u.n_tokens for u in latest),
            "finished": sum(u.finish_reason is not None for u in latest),
        }
        self._publish(event_types.TOKENS, data)
        self._changed.clear()

    def _publish(self, event_type: str, data: Mapping[str, Any]) -> None:
        self._is_heard = self._ctx.bus.publish(self._run.id, event_type, {"task_id": self._task.task_id, **data})
        self._n_published += 1


def encode_origins(origins: Sequence[str]) -> str:
    """Who supplied each token, as stored: d for the drafter, t for the target."""
    return "".join("d" if origin == "draft" else "t" for origin in origins)
