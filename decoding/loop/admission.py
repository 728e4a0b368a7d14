"""Whether a request joins a batch now: if more requests are then likely to be answered in time than if it waits."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence

from decoding.costs import Costs
from decoding.loop.batch import Batch
from decoding.loop.turns import compute_reading_share, is_long
from decoding.request import Sample
from decoding.state.request_state import RequestState

# Samples whose lengths and paces are remembered.
_REMEMBERED = 256
# Tokens of a sample, before any has been seen.
_USUAL_LENGTH = 64
# A sample without a known pace gains this many tokens a round.
_USUAL_PACE = 2.0
# A request counts as one that can be answered in time if that is more likely than not.
_LIKELY = 0.5


class SampleLengthModel:
    """How long samples become and how fast, learnt from those that have ended.

    Under load many samples are cut off, mostly the long ones. These say of their length only that it was more, which
    must not be left out: the others are too short on average.
    """

    def __init__(self) -> None:
        # (tokens, whether the sample ended there by itself); the first stands for what was seen of other models.
        self._seen: deque[tuple[int, bool]] = deque([(_USUAL_LENGTH, True)], maxlen=_REMEMBERED)
        self._paces: deque[float] = deque(maxlen=_REMEMBERED)

    def observe(self, samples: Sequence[Sample]) -> None:
        """Record samples that have ended."""
        for sample in samples:
            if sample.n_rounds:
                self._seen.append((sample.n_tokens, sample.finish_reason in ("stop", "length")))
                self._paces.append(sample.n_tokens / sample.n_rounds)

    @property
    def pace(self) -> float:
        """The mean number of tokens that a sample gains in a round."""
        return max(sum(self._paces) / len(self._paces), 1.0) if self._paces else _USUAL_PACE

    def estimate_tokens_left(self, n_tokens: int, limit: int) -> float:
        """Return how many tokens follow on average where a sample has `n_tokens` and may have `limit`."""
        return min(self._estimate_left(n_tokens), limit - n_tokens)

    def estimate_end_chance(self, n_tokens: int, limit: int, more: float) -> float:
        """Return how likely a sample of `n_tokens` ends by itself within `more` tokens."""
        if more >= limit - n_tokens:
            return 1.0
        return 1 - math.exp(-max(more, 0.0) / max(self._estimate_left(n_tokens), 1.0))

    def _estimate_left(self, n_tokens: int) -> float:
        """Return the tokens that longer samples had from there on, per end among them; infinity if none has ended.

        That is the estimate by maximum likelihood of a constant chance to end, from samples of which some are censored.
        """
        longer = [(length - n_tokens, ended) for length, ended in self._seen if length >= n_tokens]
        n_ends = sum(ended for _, ended in longer)
        return sum(tokens for tokens, _ in longer) / n_ends if n_ends else math.inf


class Admission:
    """Decides which requests join. A round's seconds are taken from the last few, scaled by the predicted costs.

    Another request makes the rounds longer, so each request in the batch is a little less likely to have a sample that
    ends before its deadline. If the newcomer waits until a request has ended, that spares this one request; those that
    stay lose as much later. So it joins now if it gains at least as much as the one that it would wait for loses, and
    if all of them together lose no more than its own chance: then the expected number of requests answered in time
    grows. A newcomer with time to spare gains nothing by joining at once, so it waits if that spares another one. A
    request alone always joins. One whose cache does not fit into memory beside the others waits.
    """

    def __init__(
        self,
        batch: Batch,
        lengths: SampleLengthModel,
        costs: Costs,
        has_memory: Callable[[RequestState], bool],
    ) -> None:
        self._batch = batch
        self._has_memory = has_memory
        self._lengths = lengths
        self._costs = costs

    def can_finish(self, state: RequestState) -> bool:
        """Return whether a waiting request is likely to be answered in time, if it joins now."""
        round_s = self._estimate_round_s(state.request.n)
        delay_s = self._estimate_reading_s(state, self._estimate_prefill_s(state))
        return self._estimate_chance(state, round_s, delay_s=delay_s) >= _LIKELY

    def waits_to_read(self, state: RequestState) -> bool:
        """Return whether a waiting request has a long prompt, and another long one is being read."""
        return self._batch.waits_to_read(state)

    def try_admit(self, state: RequestState) -> bool:
        """Return whether a waiting request joins now, with fewer samples if it allows that and they are too many."""
        others = self._batch.requests
        if not others:
            return True
        if self._batch.n_free < 1 or not self._has_memory(state) or not self._can_read_in_time(state):
            return False
        wanted = state.request.n
        fewest = wanted if state.request.n_min is None else state.request.n_min
        for n in range(wanted, fewest - 1, -1):
            has_places = n <= self._batch.n_free or n == fewest
            if has_places and self._is_worthwhile(state, n):
                if n < wanted:
                    state.limit_samples(n)
                return True
        return False

    def _can_read_in_time(self, state: RequestState) -> bool:
        """Return whether the next round, which reads the prompts of all that join before it, ends in time for them.

        The first may always join. A prefill can stop at a deadline; a prompt's rest read by a round cannot.
        """
        joining = [other for other in self._batch.requests if not other.rounds]
        n_unread = sum(self._batch.target.n_unread(self._batch.rows)) + self._batch.plan_chunks(state)[1]
        seconds = self._costs.get_known_round_s(n_unread)
        return not joining or all(each.clock.fits(seconds) for each in (*joining, state))

    def _is_worthwhile(self, state: RequestState, n: int) -> bool:
        """Return whether more requests are likely to be answered in time if `n` samples of this one join now."""
        others = self._batch.requests
        prefill_s = self._estimate_prefill_s(state)
        round_s_now, round_s_joined = self._estimate_round_s(0), self._estimate_round_s(n)

        def estimate_loss(other: RequestState) -> float:
            chance_without = self._estimate_chance(other, round_s_now, delay_s=0.0)
            return chance_without - self._estimate_chance(other, round_s_joined, delay_s=prefill_s)

        ends = [(self._estimate_end_s(other, round_s_now), other) for other in others]
        wait_s, first_to_end = min(ends, key=lambda pair: pair[0])
        reading_s = self._estimate_reading_s(state, prefill_s)
        chance_if_joining = self._estimate_chance(state, round_s_joined, delay_s=reading_s)
        chance_if_waiting = self._estimate_chance(state, round_s_now, delay_s=wait_s + prefill_s)
        gain = max(chance_if_joining - chance_if_waiting, 0.0)
        return estimate_loss(first_to_end) <= gain and sum(map(estimate_loss, others)) <= chance_if_joining

    def _estimate_chance(self, state: RequestState, round_s: float, *, delay_s: float) -> float:
        """Return how likely a request has a sample that ends in time, if rounds take `round_s` after a delay."""
        if any(sample.finish_reason is not None for sample in state.samples):
            return 1.0
        n_rounds = (state.clock.left_s - delay_s) / round_s if round_s else math.inf
        n_tokens = max(sample.n_tokens for sample in state.samples)
        return self._lengths.estimate_end_chance(n_tokens, state.max_tokens, n_rounds * self._lengths.pace)

    def _estimate_end_s(self, state: RequestState, round_s: float) -> float:
        """Return the seconds until a request is likely to have ended and to free its rows."""
        n_tokens = max((sample.n_tokens for sample in state.samples if sample.finish_reason is None), default=0)
        rounds_left = self._lengths.estimate_tokens_left(n_tokens, state.max_tokens) / self._lengths.pace
        return min(rounds_left * round_s, max(state.clock.left_s, 0.0))

    def _estimate_prefill_s(self, state: RequestState) -> float:
        """Return the seconds for which the others wait while the request's prompt is prefilled.

        Its rest makes the first round longer.
        """
        chunks, n_rest = self._batch.plan_chunks(state)
        verify_s = self._costs.round_cost.verify
        n_verified = sum(each.rounds[-1].n_verified for each in self._batch.requests if each.rounds)
        target_s = sum(map(verify_s, chunks)) + verify_s(n_verified + n_rest) - verify_s(n_verified)
        return target_s + self._costs.get_known_drafter_s(sum(chunks) + n_rest)

    def _estimate_reading_s(self, state: RequestState, prefill_s: float) -> float:
        """Return the seconds until a prompt is read that takes `prefill_s` alone: a long one takes turns."""
        if not is_long(len(self._batch.plan_chunks(state)[0])):
            return prefill_s
        return prefill_s / compute_reading_share(len(self._batch.requests), prefill_s, state.clock.left_s)

    def _estimate_round_s(self, n_joining: int) -> float:
        """Return the seconds of a round with `n_joining` more samples, if they share rows and draft as the others do.

        The seconds of the last rounds, times the ratio of the costs that are predicted for both numbers of rows.
        """
        rows, last_rounds = self._batch.rows, [state.rounds[-1] for state in self._batch.requests if state.rounds]
        round_s = self._costs.get_known_round_s()
        if not rows or not last_rounds:
            return round_s
        n_samples = sum(len(row.samples) for row in rows)
        n_rows_joined = round(len(rows) * (1 + n_joining / n_samples))
        tokens_per_row = sum(each.n_verified for each in last_rounds) / max(sum(each.n_rows for each in last_rounds), 1)

        def predict_s(n_rows: int) -> float:
            return self._costs.round_cost(n_rows, round(n_rows * tokens_per_row), math.ceil(tokens_per_row))

        return round_s * predict_s(n_rows_joined) / predict_s(len(rows))
