"""The rows being decoded now, the samples waiting for a place, and the caches kept in step with both."""

from __future__ import annotations

from collections.abc import Sequence

from decoding.attention.prefill import Prefill
from decoding.attention.target_runner import TargetRunner
from decoding.drafters.base import Drafter
from decoding.loop.turns import is_long
from decoding.memory.store import MemoryAccount, MemoryNeed
from decoding.models.loaded import LoadedModel
from decoding.request import FinishReason, Sample
from decoding.state.request_state import RequestState
from decoding.state.row import Row
from decoding.state.row_lists import take_out
from decoding.state.text import TextStream


class Batch:
    """Samples of one or more requests, at most `max_samples` of them at a time.

    Index r means the same row in the target's cache, in the drafter's and in `rows`. Samples of a request start
    together in one row where they may share (`shares_rows`), else in a row each. A row that finishes gives its place to
    waiting samples of its request, which start from the prompt already in its cache, or else the last row moves
    into it.
    """

    def __init__(
        self,
        model: LoadedModel,
        target: TargetRunner,
        drafter: Drafter,
        memory: MemoryAccount,
        *,
        max_samples: int,
        shares_rows: bool,
    ) -> None:
        self.memory = memory
        memory.owners = lambda: [row.state for row in (*self.rows, *self._list_aside())]
        self.target = target
        self.drafter = drafter
        self._max_samples = min(max_samples, target.cache.max_rows)  # slots for recurrent states may be few
        self._shares_rows = shares_rows
        # A row that only some of a request's samples are in is copied for the others, once its prompt is read.
        self._leaves_rest = shares_rows and target.reads_in_rounds
        self.rows: list[Row] = []
        self._aside: tuple[Row, Prefill] | None = None
        self.requests: list[RequestState] = []
        self._tokenizer = model.tokenizer

    @property
    def n_free(self) -> int:
        """Samples that there is room for."""
        return self._max_samples - sum(
            len(row.samples) for row in (*self.rows, *self._list_aside()) if not row.is_finished
        )

    def compute_memory_need(self, state: RequestState) -> MemoryNeed:
        """Return what a request may need from now on: a row for each sample that has not ended."""
        n_rows = min(sum(sample.finish_reason is None for sample in state.samples), self._max_samples)
        return MemoryNeed(n_rows, state.capacity, len(state.prompt) - 2)

    def admit(self, state: RequestState) -> Prefill:
        """Start the first row of a request; the result prefills its prompt, and `retire` then starts other samples.

        A caller that does not finish the prefill has to `finish` the request.
        """
        self.requests.append(state)
        return self._start_row(self._take_next_group(state), state, len(self.rows), source=None)

    def plan_chunks(self, state: RequestState) -> tuple[list[int], int]:
        """Return the sizes of the forwards that `admit` would need, and the tokens left to the first round."""
        scored, cached = state.request.prompt_logprobs is not None, state.request.prefix_cache
        return self.target.runner.plan_chunks(
            state.prompt[:-1], prefix_cache=cached and not scored, leave_rest=self._leaves_rest and not scored
        )

    def find_row(self, state: RequestState) -> int:
        """Return where the first row of a request is."""
        return next(row_index for row_index, row in enumerate(self.rows) if row.state is state)

    @property
    def has_row_aside(self) -> bool:
        """Whether a row waits for more of its prompt to be read."""
        return self._aside is not None

    def waits_to_read(self, state: RequestState) -> bool:
        """Return whether the prompt of a request is a long one, and another long one is being read."""
        return self.has_row_aside and is_long(len(self.plan_chunks(state)[0]))

    def set_aside(self, row_index: int, prefill: Prefill) -> None:
        """Take a row whose prompt is not read yet out of the rounds until `put_back`, or its end."""
        assert self._aside is None
        self._aside = take_out(self.rows, row_index), prefill
        self.target.cache.set_aside(row_index)
        self.drafter.set_aside(row_index)

    def put_back(self) -> tuple[RequestState, Prefill]:
        """Append the row that was set aside; return its request, and what reads more of its prompt."""
        assert self._aside is not None
        (row, prefill), self._aside = self._aside, None
        self.rows.append(row)
        self.target.cache.put_back()
        self.drafter.put_back()
        return row.state, prefill

    def _list_aside(self) -> list[Row]:
        return [] if self._aside is None else [self._aside[0]]

    def fork(self, row_index: int, parts: Sequence[Sequence[Sample]]) -> None:
        """Split a row's samples between a verify and its commit: the first part stays, others get new rows."""
        for samples in parts[1:]:
            self.rows.append(self.rows[row_index].fork(samples))
            self.target.fork(row_index)
            self.drafter.fork(row_index, self.rows[-1])

    def finish(self, state: RequestState, reason: FinishReason) -> list[Row]:
        """End every sample of a request that has not ended, the waiting ones too; return its rows."""
        if any(row.state is state for row in self._list_aside()):
            self.put_back()
        rows = [row for row in self.rows if row.state is state]
        for row in rows:
            row.finish(reason)
        state.finish_waiting(reason)
        return rows

    def retire(self) -> list[RequestState]:
        """Take finished rows out and let waiting samples in; return the requests that are done."""
        # From the last row to the first, so that a move never meets a finished row.
        for row_index in range(len(self.rows) - 1, -1, -1):
            if not self.rows[row_index].is_finished:
                continue
            if group := self._take_next_group(self.rows[row_index].state):
                self._start_from_copy(group, self.rows[row_index].state, row_index, source=row_index)
                continue
            take_out(self.rows, row_index)
            self.target.cache.drop(row_index)
            self.drafter.drop(row_index)
        self._start_waiting_samples()
        done = [state for state in self.requests if state.is_done]
        self.requests = [state for state in self.requests if not state.is_done]
        return done

    def _start_waiting_samples(self) -> None:
        for state in self.requests:
            unread = self.target.n_unread(self.rows)
            own = (row_index for row_index, row in enumerate(self.rows) if row.state is state and not unread[row_index])
            source = next(own, None)
            while source is not None and (group := self._take_next_group(state)):
                self._start_from_copy(group, state, len(self.rows), source)

    def _take_next_group(self, state: RequestState) -> list[Sample]:
        n_places = self.n_free if self._shares_rows else min(self.n_free, 1)
        return [state.waiting.popleft() for _ in range(min(n_places, len(state.waiting)))]

    def _start_from_copy(self, samples: list[Sample], state: RequestState, row_index: int, source: int) -> None:
        """Put a new row at `row_index`, its prompt copied from row `source` of the same request."""
        self._start_row(samples, state, row_index, source).finish(row_index)  # which has nothing left to read

    def _start_row(self, samples: list[Sample], state: RequestState, row_index: int, source: int | None) -> Prefill:
        """Put a new row at `row_index`; the result prefills its prompt, if there is no `source`."""
        row = Row(samples, state, list(state.prompt), TextStream(self._tokenizer, state.prompt, state.request.stop))
        self.rows[row_index : row_index + 1] = [row]
        prefill = self.target.runner.start(
            row_index,
            state.prompt[:-1],
            state.capacity,
            source,
            prefix_cache=state.request.prefix_cache,
            leave_rest=self._leaves_rest,
            keeps_prompt=bool(state.waiting),
            score=None if state.request.prompt_logprobs is None else state.record_prompt_scores,
        )
        if source is None:
            state.cached_tokens = self.target.cache.lens[row_index]
        return prefill.then(self.drafter.start(row_index, row, source))
