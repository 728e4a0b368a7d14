"""Whether a request may join a batch: only if everybody in it still finishes in time, as far as can be foreseen."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from decoding.draft_length.round_cost import RoundCost
from decoding.loop.batch import Batch
from decoding.request import Sample
from decoding.state.clock import CostTimer
from decoding.state.request_state import RequestState

# Samples whose lengths and paces are remembered.
_REMEMBERED = 256
# Tokens of a sample, before any has been seen.
_USUAL_LENGTH = 64
# A sample without a known pace gains this many tokens a round.
_USUAL_PACE = 2.0


class Lengths:
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

    def expected_left(self, n_tokens: int, limit: int) -> float:
        """Return how many tokens follow on average where a sample has `n_tokens` and may have `limit`.

        That is the tokens which longer samples had from there on, per end among them: the estimate by maximum
        likelihood of a constant chance to end, from samples of which some are censored.
        """
        longer = [(length - n_tokens, ended) for length, ended in self._seen if length >= n_tokens]
        n_ends = sum(ended for _, ended in longer)
        left = sum(tokens for tokens, _ in longer) / n_ends if n_ends else math.inf
        return min(left, limit - n_tokens)


class Admission:
    """Decides by the measured cost of rounds; `round_cost` gives their proportions, the timers their seconds.

    Each request in a batch is promised that what is likely to be left of it, by the lengths of earlier samples, will be
    decoded before its deadline. Another request makes the rounds longer. It joins if all promises are kept with it, or
    if only those are broken that could not be kept anyway and its own is kept; and if there is a place for one of its
    samples. A request alone always joins: there is nothing to lose.
    """

    def __init__(
        self, batch: Batch, lengths: Lengths, round_timer: CostTimer, prefill_timer: CostTimer, round_cost: RoundCost
    ) -> None:
        self._batch = batch
        self._lengths = lengths
        self._round_timer = round_timer
        self._prefill_timer = prefill_timer
        self._round_cost = round_cost

    def can_finish(self, state: RequestState) -> bool:
        """Return whether a waiting request is likely to end in time, if it joins now."""
        return self._keeps(state, self._round_s(state.request.n), self._prefill_s(state))

    def admits(self, state: RequestState) -> bool:
        """Return whether a waiting request may join now, with fewer samples if it allows that and they are too many."""
        others = self._batch.requests
        if not others:
            return True
        if self._batch.n_free < 1:
            return False
        most = state.request.n
        fewest = most if state.request.n_min is None else state.request.n_min
        for n in range(most, fewest - 1, -1):
            has_places = n <= self._batch.n_free or n == fewest
            if has_places and self._helps(state, n):
                if n < most:
                    state.limit_samples(n)
                return True
        return False

    def _helps(self, state: RequestState, n: int) -> bool:
        prefill_s, round_s, least_s = self._prefill_s(state), self._round_s(n), self._round_timer.least_s
        late = [other for other in self._batch.requests if not self._keeps(other, round_s, prefill_s)]
        lost = all(not self._keeps(other, least_s, 0.0) for other in late)
        return not late or (lost and self._keeps(state, round_s, prefill_s))

    def _keeps(self, state: RequestState, round_s: float, delay_s: float) -> bool:
        return state.clock.fits(delay_s + round_s * self._rounds_left(state))

    def _rounds_left(self, state: RequestState) -> float:
        n_tokens = max((sample.n_tokens for sample in state.samples if sample.finish_reason is None), default=0)
        return self._lengths.expected_left(n_tokens, state.limit) / self._lengths.pace

    def _prefill_s(self, state: RequestState) -> float:
        return self._prefill_timer.known_s * len(state.prompt)

    def _round_s(self, n_joining: int) -> float:
        """Return the seconds of a round with so many more samples, once every sample has a row of its own."""
        rows = self._batch.rows
        if not rows:
            return self._round_timer.known_s
        n_samples = sum(len(row.samples) for row in rows)
        longest = round(self._lengths.pace + 1)
        now, then = (self._round_cost(n, n * longest, longest) for n in (len(rows), n_samples + n_joining))
        return self._round_timer.known_s * then / now
