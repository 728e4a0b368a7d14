"""The rows being decoded now, the samples waiting for a place, and the caches kept in step with both."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from decoding.drafters.base import Drafter
from decoding.request import FinishReason, Request, Sample
from decoding.row import Row
from decoding.runner import ModelRunner
from decoding.text import TextStream


class Batch:
    """n samples of one request in at most `max_rows` slots.

    Slot r of the target's cache, of the drafter's and of `rows` are always the same sample. A row that finishes gives
    its slot to a waiting sample, which starts from the prompt already in the slot's cache, or else the last row moves
    into it and the batch shrinks.
    """

    def __init__(self, request: Request, prompt: list[int], limit: int, tokenizer: object, max_rows: int) -> None:
        self.request = request
        self.prompt = prompt
        self.limit = limit
        self._tokenizer = tokenizer
        self.samples = [Sample(index=i, seed=request.seed) for i in range(request.n)]
        self._waiting = deque(self.samples)
        self.rows = [self._next_row() for _ in range(min(request.n, max_rows))]

    def retire_finished(self, target: ModelRunner, drafter: Drafter) -> None:
        """Take finished rows out, from the last slot to the first so that moves never meet one."""
        for slot in range(len(self.rows) - 1, -1, -1):
            if self.rows[slot].sample.finish_reason is None:
                continue
            if self._waiting:
                self.rows[slot] = self._next_row()
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

    def _next_row(self) -> Row:
        return Row(
            sample=self._waiting.popleft(),
            request=self.request,
            tokens=list(self.prompt),
            n_prompt=len(self.prompt),
            limit=self.limit,
            stream=TextStream(self._tokenizer, self.prompt, self.request.stop),
        )
