"""Admits requests to a batch while there is room, takes it from round to round, and ends requests at deadlines."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from decoding.attention.runner_pool import Runners
from decoding.loop.step import Decoder
from decoding.loop.updates import publish
from decoding.request import Completion, OnUpdateOf, Request, RequestError, ShouldCancel
from decoding.state.clock import CostTimer
from decoding.state.request_state import RequestState


class Scheduler:
    """Decodes requests in one batch. `round_cost` predicts a round's seconds, from earlier batches too."""

    def __init__(
        self,
        decoder: Decoder,
        runners: Runners,
        round_cost: CostTimer,
        on_update: OnUpdateOf | None,
        should_cancel: ShouldCancel | None,
    ) -> None:
        self._decoder = decoder
        self._batch = decoder.batch
        self._model = decoder.model
        self._runners = runners
        self._round_cost = round_cost
        self._on_update = on_update
        self._should_cancel = should_cancel

    def run(self, requests: Iterable[Request]) -> Iterator[tuple[int, Completion | RequestError]]:
        """Yield (position, outcome) as each request is done; the next is taken when the others leave room for it."""
        for timer in (self._round_cost, *self._runners.prefill_costs):
            timer.restart()
        batch, incoming, cancelled = self._batch, enumerate(requests), False
        while True:
            while not cancelled and self._has_room() and (arrival := next(incoming, None)):
                position, request = arrival
                try:
                    state = RequestState.start(position, request, self._model)
                except RequestError as error:
                    yield position, error
                    continue
                yield from self._admit(state)
            if not batch.requests:
                return
            cancelled = self._should_cancel is not None and self._should_cancel()
            self._end_requests(cancelled)
            done = batch.retire()
            if batch.rows:
                done += self._step()
            for state in done:
                yield state.position, state.completion(self._model)

    def _has_room(self) -> bool:
        """Return whether another sample fits, and its prefill ends before the deadlines of the others."""
        round_s, token_s = self._round_cost.expected_s, self._runners.prefill_costs[0].expected_s
        return self._batch.n_free > 0 and all(
            state.clock.fits(round_s + token_s * len(state.prompt)) for state in self._batch.requests
        )

    def _admit(self, state: RequestState) -> Iterator[tuple[int, Completion]]:
        """Prefill a request's prompt in pieces; yield requests that end meanwhile, itself if no round fits."""
        batch = self._batch
        for n_pieces, ahead in enumerate(batch.admit(state)):
            # The others wait for this prefill; those that cannot wait end now with the tokens they have.
            for other in [o for o in batch.requests if o is not state and not o.clock.fits(ahead.next_s)]:
                publish(batch.finish(other, "deadline"), self._on_update)
                batch.requests.remove(other)
                yield other.position, other.completion(self._model)
            if n_pieces and self._should_cancel is not None and self._should_cancel():
                publish(batch.finish(state, "cancelled"), self._on_update)
                break
            if not state.clock.fits(ahead.rest_s):
                if not n_pieces:
                    # Refused on an estimate: halve it, so that one slow measurement cannot refuse all later requests.
                    for timer in self._runners.prefill_costs:
                        timer.halve_estimates()
                publish(batch.finish(state, "deadline"), self._on_update)
                break
        state.prefill_s = state.clock.elapsed
        for done in batch.retire():
            yield done.position, done.completion(self._model)

    def _end_requests(self, cancelled: bool) -> None:
        """End all requests if cancelled, else those whose deadline the next round would miss."""
        expected_s = self._round_cost.expected_s + self._runners.capture_ahead_s
        for state in self._batch.requests:
            if cancelled:
                publish(self._batch.finish(state, "cancelled"), self._on_update)
            elif not state.clock.fits(expected_s):
                if not state.rounds:
                    # No round fit: halve the estimate, so that one slow measurement cannot refuse all later requests.
                    self._round_cost.halve_estimates()
                publish(self._batch.finish(state, "deadline"), self._on_update)

    def _step(self) -> list[RequestState]:
        """Decode one round; return the requests that are done."""
        started, captured_s = time.perf_counter(), self._runners.captured_s
        added = self._decoder.step()
        publish(self._batch.rows, self._on_update, added)
        done = self._batch.retire()
        # The time that a round takes to capture its graphs says nothing about the next.
        self._round_cost.observe(time.perf_counter() - started - (self._runners.captured_s - captured_s))
        return done
