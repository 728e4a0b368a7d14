"""The rows being decoded now, the samples waiting for a place, and the caches kept in step with both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from decoding.attention.runner import Ahead, ModelRunner
from decoding.drafters.base import Drafter
from decoding.models.loaded import LoadedModel
from decoding.request import FinishReason, Sample
from decoding.state.request_state import ActiveRequest
from decoding.state.row import Row
from decoding.state.text import TextStream


class Batch:
    """Samples of one or more requests, at most `max_samples` of them at a time.

    Slot r of the target's cache, of the drafter's and of `rows` always belong together. Samples of a request start
    together in one row where they may share (`shared`), else in a row each. A row that finishes gives its slot to
    waiting samples of its request, which start from the prompt already in the slot's cache, or else the last row moves
    into it.
    """

    def __init__(
        self, model: LoadedModel, target: ModelRunner, drafter: Drafter, *, max_samples: int, shared: bool
    ) -> None:
        self.target = target
        self.drafter = drafter
        self.max_samples = max_samples
        self.shared = shared
        self.rows: list[Row] = []
        self.active: list[ActiveRequest] = []
        self._tokenizer = model.tokenizer

    @property
    def n_free(self) -> int:
        """Places for samples that nobody takes."""
        return self.max_samples - sum(len(row.samples) for row in self.rows if not row.is_finished)

    def admit(self, active: ActiveRequest) -> Iterator[Ahead]:
        """Prefill a request's prompt, saying before each piece what lies ahead; then start its samples, as many as fit.

        Who does not iterate to the end has to `finish` the request.
        """
        self.active.append(active)
        yield from self._start(self._next_group(active), active, len(self.rows), source=None)
        self._fill()

    def fork(self, slot: int, parts: Sequence[Sequence[Sample]]) -> None:
        """Part a row's samples: the first part keeps the slot, the others get new ones behind all others."""
        for samples in parts[1:]:
            self.rows.append(self.rows[slot].fork(samples))
            # What this round wrote is not yet committed; the draft model's cache is committed as it drafts.
            self.target.cache.fork(slot, self.target.cache.layout.counts[slot])
            self.drafter.fork(slot, self.rows[-1])

    def finish(self, active: ActiveRequest, reason: FinishReason) -> list[Row]:
        """End every sample of a request that has not ended, the waiting ones too; return its rows."""
        rows = [row for row in self.rows if row.active is active]
        for row in rows:
            row.finish(reason)
        active.finish_waiting(reason)
        return rows

    def retire(self) -> list[ActiveRequest]:
        """Take finished rows out and let waiting samples in; return the requests that are done."""
        # From the last slot to the first, so that a move never meets a finished row.
        for slot in range(len(self.rows) - 1, -1, -1):
            if not self.rows[slot].is_finished:
                continue
            if group := self._next_group(self.rows[slot].active):
                self._copy(group, self.rows[slot].active, slot, source=slot)
                continue
            last = self.rows.pop()
            if slot < len(self.rows):
                self.rows[slot] = last
            self.target.cache.drop(slot)
            self.drafter.drop(slot)
        self._fill()
        done = [active for active in self.active if active.is_done]
        self.active = [active for active in self.active if not active.is_done]
        return done

    def _fill(self) -> None:
        for active in self.active:
            source = next((slot for slot, row in enumerate(self.rows) if row.active is active), None)
            while source is not None and (group := self._next_group(active)):
                self._copy(group, active, len(self.rows), source)

    def _next_group(self, active: ActiveRequest) -> list[Sample]:
        """Take the waiting samples of a request that there is room for in one row."""
        n_places = self.n_free if self.shared else min(self.n_free, 1)
        return [active.waiting.popleft() for _ in range(min(n_places, len(active.waiting)))]

    def _copy(self, samples: list[Sample], active: ActiveRequest, slot: int, source: int) -> None:
        """Put a new row into a slot, its prompt copied from slot `source` of the same request."""
        for _ in self._start(samples, active, slot, source):
            raise AssertionError("a prompt that is copied needs no prefill")

    def _start(self, samples: list[Sample], active: ActiveRequest, slot: int, source: int | None) -> Iterator[Ahead]:
        """Put a new row into a slot; iterating over the result prefills its prompt, if there is no `source`."""
        row = Row(samples, active, list(active.prompt), TextStream(self._tokenizer, active.prompt, active.request.stop))
        self.rows[slot : slot + 1] = [row]
        steps = self.target.start(slot, active.prompt[:-1], active.capacity, source)
        return chain(steps, self.drafter.start(slot, row, source))
