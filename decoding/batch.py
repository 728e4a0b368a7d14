"""The rows being decoded now, the samples waiting for a place, and the caches kept in step with both."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from decoding.drafters.base import Drafter
from decoding.request import FinishReason, Request, Sample
from decoding.row import Row
from decoding.runner import ModelRunner
from decoding.text import TextStream


class Batch:
    """n samples of one request, at most `max_samples` of them at a time.

    Slot r of the target's cache, of the drafter's and of `rows` always belong together. Samples start together in one
    row where they may share (`shared`), else in a row each. A row that finishes gives its slot to waiting samples,
    which start from the prompt already in the slot's cache, or else the last row moves into it.
    """

    def __init__(
        self, request: Request, prompt: list[int], limit: int, tokenizer: Any, *, max_samples: int, shared: bool
    ) -> None:
        self.request = request
        self.prompt = prompt
        self.limit = limit
        self.shared = shared
        self._tokenizer = tokenizer
        self.samples = [Sample(index=i, seed=request.seed) for i in range(request.n)]
        self.max_samples = min(request.n, max_samples)
        self._waiting = deque(self.samples)
        first = [self._waiting.popleft() for _ in range(self.max_samples)]
        groups = [first] if shared else [[sample] for sample in first]
        self.rows = [self._start(group) for group in groups]

    def fork(self, slot: int, parts: Sequence[Sequence[Sample]], target: ModelRunner, drafter: Drafter) -> list[Row]:
        """Part a row's samples: the first part keeps the slot, the others get new ones; return all, in that order."""
        rows = [self.rows[slot]]
        for samples in parts[1:]:
            rows.append(self.rows[slot].fork(samples))
            target.cache.fork(slot)
            drafter.fork(slot, rows[-1])
        self.rows += rows[1:]
        return rows

    def retire_finished(self, target: ModelRunner, drafter: Drafter) -> None:
        """Take finished rows out, from the last slot to the first so that moves never meet one."""
        for slot in range(len(self.rows) - 1, -1, -1):
            if not self.rows[slot].is_finished:
                continue
            if group := self._next_group():
                self.rows[slot] = self._start(group)
                target.cache.rewind(slot, len(self.prompt) - 1)
                drafter.restart(slot, self.rows[slot])
                continue
            last = self.rows.pop()
            if slot < len(self.rows):
                self.rows[slot] = last
            target.cache.drop(slot)
            drafter.drop(slot)

    def finish_all(self, reason: FinishReason, now: float) -> Sequence[Row]:
        """End every sample that is not finished, the waiting ones too; return the rows that were being decoded."""
        ended = self.rows
        for row in ended:
            row.finish(reason, now)
        for sample in self._waiting:
            sample.finish_reason, sample.finished_s = reason, now
        self.rows = []
        self._waiting.clear()
        return ended

    def _next_group(self) -> list[Sample]:
        """Take the waiting samples that there is room for in one row; none if others took the room already."""
        n_active = sum(len(row.samples) for row in self.rows if not row.is_finished)
        n_places = self.max_samples - n_active if self.shared else 1
        return [self._waiting.popleft() for _ in range(min(n_places, len(self._waiting)))]

    def _start(self, samples: list[Sample]) -> Row:
        stream = TextStream(self._tokenizer, self.prompt, self.request.stop)
        return Row(samples, self.request, list(self.prompt), len(self.prompt), self.limit, stream)
