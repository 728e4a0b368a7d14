"""Lets requests join a batch, takes it from round to round, and ends requests at their deadlines."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence

from decoding.attention.prefill import Prefill
from decoding.attention.runner_pool import Runners
from decoding.costs import Costs
from decoding.loop.admission import Admission, SampleLengthModel
from decoding.loop.intake import Intake
from decoding.loop.step import Decoder, RoundMemoryError
from decoding.loop.turns import ReadingTurns, compute_reading_share, is_long
from decoding.models.device import is_out_of_memory
from decoding.request import Completion, FinishReason, OnBatchUpdate, Origin, RequestError, ShouldCancelRequest, Update
from decoding.state.request_state import RequestState
from decoding.state.row import Row

Outcome = tuple[int, Completion | RequestError]


class Scheduler:
    """Decodes requests in one batch. `costs` predict what work will take, from earlier batches too."""

    def __init__(
        self,
        decoder: Decoder,
        runners: Runners,
        costs: Costs,
        lengths: SampleLengthModel,
        on_update: OnBatchUpdate | None,
        should_cancel: ShouldCancelRequest | None,
    ) -> None:
        self._decoder = decoder
        self._batch = decoder.batch
        self._model = decoder.model
        self._runners = runners
        self._costs = costs
        self._memory = decoder.batch.memory
        self._lengths = lengths
        self._on_update = on_update
        self._should_cancel = should_cancel
        self._turns = ReadingTurns()

    def run(self, intake: Intake) -> Iterator[Outcome]:
        """Yield (position, outcome) as each request is done, until the intake has none and the batch is empty."""
        self._costs.restart()
        batch = self._batch
        while True:
            while taken := intake.next():
                if isinstance(taken, RequestState):
                    yield from self._admit_or_refuse(taken, intake)
                else:
                    yield taken
            yield from self._end_waiting(intake)
            if not batch.requests:
                if intake.is_over:
                    return
                continue
            if batch.has_row_aside and (self._turns.is_due or not batch.rows):
                yield from self._read_prompt(*batch.put_back(), intake)
            self._end_requests()
            for state in batch.retire():  # before the round that they cannot wait for
                yield self._build_outcome(state)
            if batch.rows and not (batch.has_row_aside and self._turns.is_due):
                yield from self._step()

    def has_free_place(self) -> bool:
        """Return whether there is room for another sample."""
        return self._batch.n_free > 0

    def fits_beside_others(self, state: RequestState) -> bool:
        """Return whether a request fits into memory, and its prefill ends before the deadlines of the others."""
        others = self._batch.requests
        chunks, n_rest = self._batch.plan_chunks(state)
        scored = state.request.prompt_logprobs is not None
        seconds = self._costs.get_known_round_s() + self._costs.get_known_prompt_s(sum(chunks) + n_rest, scored=scored)
        return not others or (
            all(o.clock.fits(seconds) for o in others)
            and self._has_memory(state)
            and not self._batch.waits_to_read(state)
        )

    def _has_memory(self, state: RequestState) -> bool:
        """Return whether a request need not wait for memory: one that can never have it does not wait either."""
        need = self._batch.compute_memory_need(state)
        return not self._memory.lacks(need) or self._memory.never_fits(need)

    def make_admission(self) -> Admission:
        """Return the admission of requests to the batch."""
        return Admission(self._batch, self._lengths, self._costs, self._has_memory)

    def _find_reason_to_end(self, state: RequestState, needed_s: float) -> FinishReason | None:
        """Return why a request ends now, if it is cancelled or has not `needed_s` left."""
        if self._should_cancel is not None and self._should_cancel(state.position):
            return "cancelled"
        return None if state.clock.fits(needed_s) else "deadline"

    def _build_outcome(self, state: RequestState) -> Outcome:
        self._lengths.observe(state.samples)
        self._memory.give_back(state)
        return state.position, state.build_completion(self._model)

    def _admit_or_refuse(self, state: RequestState, intake: Intake) -> Iterator[Outcome]:
        """Admit a request; refuse it, and nobody else, if there is no memory for it."""
        need, memory = self._batch.compute_memory_need(state), self._memory
        if memory.lacks(need):  # one that could fit later has waited
            spare = state.capacity - len(state.prompt) - state.max_tokens
            n = max(memory.fitting_tokens(need) - spare, 0)
            yield self._build_refusal(state, f"does not fit into memory, and {n:,} tokens each would")
            return
        memory.take(state, need)
        started, is_alone = time.perf_counter(), not self._batch.has_row_aside
        if is_alone:
            self._turns.restart()
        yield from self._read_prompt(state, None, intake)
        if not is_alone:
            self._turns.record_others(time.perf_counter() - started)

    def _end_out_of_memory(self, state: RequestState) -> Iterator[Outcome]:
        self._batch.finish(state, "cancelled")
        for done in self._batch.retire():
            if done is not state:
                yield self._build_outcome(done)
        self._memory.give_back(state)
        yield self._build_refusal(state, "does not fit into the memory that is free")

    def _build_refusal(self, state: RequestState, why: str) -> Outcome:
        n, n_tokens = len(state.samples), len(state.prompt) + state.max_tokens
        return state.position, RequestError(
            f"a cache of {n} x {n_tokens} tokens for n = {n} samples (prompt and max_new_tokens) {why}:"
            " shorten the prompt, give a smaller max_new_tokens or n, or end other programs"
        )

    def _read_prompt(self, state: RequestState, prefill: Prefill | None, intake: Intake) -> Iterator[Outcome]:
        """Read a request's prompt, of a long one a chunk; yield requests that end. It joins now without `prefill`."""
        try:
            is_over = yield from self._read_chunks(state, prefill or self._batch.admit(state), intake)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            yield from self._end_out_of_memory(state)
            return
        if is_over:
            state.prefill_s = state.clock.elapsed_s - state.waited_s
        for done in self._batch.retire():
            yield self._build_outcome(done)

    def _read_chunks(self, state: RequestState, prefill: Prefill, intake: Intake) -> Generator[Outcome, None, bool]:
        """Read chunks; return whether the prompt is read or its request has ended, else its row is set aside."""
        batch = self._batch
        while not prefill.is_done(row := batch.find_row(state)):
            ahead = prefill.estimate(row)
            yield from self._end_waiting(intake)
            # The others wait for this chunk; those that cannot wait end now with the tokens they have.
            others = [other for other in batch.requests if other is not state]
            for other in [o for o in others if not o.clock.fits(ahead.next_s if o.rounds else 0.0)]:
                publish_updates(batch.finish(other, "deadline"), self._on_update)
                batch.requests.remove(other)
                yield self._build_outcome(other)
            if reason := self._find_reason_to_end(state, ahead.least_rest_s):
                publish_updates(batch.finish(state, reason), self._on_update)
                break
            started = time.perf_counter()
            prefill.step(row)
            if is_long(prefill.n_chunks) and not batch.has_row_aside:
                share = compute_reading_share(len(batch.requests) - 1, ahead.rest_s, state.clock.left_s)
                self._turns.record_chunk(time.perf_counter() - started, share)
                batch.set_aside(row, prefill)
                return False
        return True

    def _end_waiting(self, intake: Intake) -> Iterator[Outcome]:
        for state in intake.waiting():
            if reason := self._find_reason_to_end(state, self._costs.next_round.least_s):
                state.waited_s = state.clock.elapsed_s
                state.finish_waiting(reason)
                yield self._build_outcome(state)

    def _end_requests(self) -> None:
        """End the requests that are cancelled, and those whose deadline the next round would miss.

        One that has text must not lose it to a late round, so the estimate counts. One without has nothing to lose: it
        is tried unless rounds of just now were all too long for it.
        """
        n_unread = sum(self._batch.target.n_unread(self._batch.rows))
        expected_s = self._costs.get_expected_round_s(n_unread)
        for state in self._batch.requests:
            needed_s = expected_s if state.rounds else self._costs.next_round.least_s
            if reason := self._find_reason_to_end(state, needed_s):
                publish_updates(self._batch.finish(state, reason), self._on_update)

    def _step(self) -> Iterator[Outcome]:
        """Decode one round; yield the requests that are done, or the largest one if memory has run out."""
        started, captured_s = time.perf_counter(), self._runners.captured_s
        reads_prompts = any(self._batch.target.n_unread(self._batch.rows))
        try:
            added = self._decoder.step()
        except RoundMemoryError:
            largest = max(
                self._batch.requests, key=lambda each: self._memory.n_pages(self._batch.compute_memory_need(each))
            )
            yield from self._end_out_of_memory(largest)
            return
        self._turns.record_others(time.perf_counter() - started)
        publish_updates(self._batch.rows, self._on_update, added)
        done = self._batch.retire()
        for state in self._batch.requests:  # samples that have ended need no rows
            self._memory.take(state, self._batch.compute_memory_need(state))
        if not reads_prompts:
            # The time that a round takes to capture its graphs says nothing about the next.
            self._costs.next_round.observe(time.perf_counter() - started - (self._runners.captured_s - captured_s))
        for state in done:
            yield self._build_outcome(state)


def publish_updates(
    rows: Sequence[Row], on_update: OnBatchUpdate | None, added: Sequence[tuple[Origin, ...]] | None = None
) -> None:
    """Call `on_update` once for each request of `rows`; `added` are the origins of each row's new tokens."""
    if on_update is None:
        return
    updates: dict[RequestState, list[Update]] = {}
    for r, row in enumerate(rows):
        updates.setdefault(row.state, []).extend(
            Update(
                index=sample.index,
                text=row.stream.text,
                n_tokens=sample.n_tokens,
                origins=added[r] if added else (),
                mean_logprob=sample.mean_logprob,
                elapsed_s=row.state.clock.elapsed_s,
                finish_reason=sample.finish_reason,
                ends=tuple(sample.ends[-len(added[r]) :]) if added and added[r] else (),
            )
            for sample in row.samples
        )
    for state, own in updates.items():
        on_update(state.position, own)
