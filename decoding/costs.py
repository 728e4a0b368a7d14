"""What the work of an engine takes: one object that everything which takes time asks and reports to."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# Work may cost more than what came before it (a longer draft, a busy machine).
_MARGIN = 1.15
_REMEMBERED = 4
# How much faster the machine may have become since the batch before.
_SPEEDUP = 4.0
# How long a measurement stays valid: the load of a machine changes within seconds.
_FRESH_S = 1.0


class CostEstimator:
    """Predicts the seconds of the next unit of work (a round, a token of a prefill) from the last few of this batch.

    What earlier batches measured is old, and of batches of other sizes: until this one has measured a unit, the
    estimate is a quarter of the cheapest unit of the batch before, because the machine may be faster now.
    """

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque(maxlen=_REMEMBERED)  # (seconds, when)
        self._cheapest_s = 0.0

    def restart(self) -> None:
        """Begin a batch: earlier measurements only bound the first estimate from now on."""
        self._seen.clear()

    def observe(self, seconds: float) -> None:
        """Record the cost of a unit."""
        self._cheapest_s = min(self._cheapest_s, seconds) if self._seen else seconds
        self._seen.append((seconds, time.perf_counter()))

    @property
    def expected_s(self) -> float:
        """Seconds that the next unit will take: the slowest of the last few, with a margin."""
        return max(self._seen)[0] * _MARGIN if self._seen else self._cheapest_s / _SPEEDUP

    @property
    def known_s(self) -> float:
        """Seconds that a unit has taken: as `expected_s`, but as long as before until this batch has measured one."""
        return self.expected_s if self._seen else self._cheapest_s

    @property
    def least_s(self) -> float:
        """Seconds that a unit surely takes: the fastest of the last few, 0 if none of them was measured just now.

        Work that is refused is not measured, so an old measurement must not refuse any.
        """
        is_fresh = bool(self._seen) and time.perf_counter() - self._seen[-1][1] <= _FRESH_S
        return min(self._seen)[0] if is_fresh else 0.0


SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
_TIME_LIMIT_S = 4.0
_REPEATS = 3


@dataclass(frozen=True, slots=True)
class VerifyCost:
    """The seconds of a verify at each measured size: linear between sizes, and with the last slope beyond the last."""

    sizes: tuple[int, ...]
    seconds: tuple[float, ...]

    def __call__(self, n_tokens: int) -> float:
        """Return the expected seconds of a verify of `n_tokens` packed tokens."""
        if len(self.sizes) == 1:
            return self.seconds[0]
        right = min(max(bisect_left(self.sizes, n_tokens), 1), len(self.sizes) - 1)
        (x0, x1), (y0, y1) = self.sizes[right - 1 : right + 1], self.seconds[right - 1 : right + 1]
        return y0 + (y1 - y0) * (max(n_tokens, self.sizes[0]) - x0) / (x1 - x0)


def measure_verify_cost(verify: Callable[[int], None]) -> VerifyCost:
    """Time `verify(n_tokens)` at growing sizes, a few runs each, for a few seconds; keep the fastest run of each."""
    started = time.perf_counter()
    seconds: list[float] = []
    for size in SIZES:
        verify(size)  # the first run of a shape includes its setup
        runs = []
        for _ in range(_REPEATS):
            before = time.perf_counter()
            verify(size)
            runs.append(time.perf_counter() - before)
        # More tokens never take less time: a lower measurement is noise.
        seconds.append(max(min(runs), seconds[-1] if seconds else 0.0))
        if time.perf_counter() - started > _TIME_LIMIT_S:
            break
    return VerifyCost(SIZES[: len(seconds)], tuple(seconds))


# Each round multiplies the weight of earlier ones by this, which halves it in 140 rounds: contexts grow, and the load
# of the machine changes.
_DECAY = 0.995
# Ridge regularization, in rounds: the first few rounds must not determine the coefficients alone. It does not decay:
# rounds of one shape, as in plain decoding, cannot tell the coefficients apart, however many there are.
_RIDGE = 0.1
# The weight of the last draft in the mean of a draft step.
_STEP_WEIGHT = 0.1
# The correction counts up to this share of the verify. A longer round was interrupted by another program.
_MAX_EXTRA = 1.0


class RoundCost:
    """Predicts the seconds after drafting, for R rows with N tokens in all and at most T each.

    `VerifyCost` is measured on one row. A round takes further time per row, and per cell of the R x T rectangle to
    which attention pads a ragged batch, so that one long draft makes every row slower, unless it is so much longer that
    it has a call of its own (`memory/layout.py`). These coefficients are fitted to past rounds by least squares with
    exponentially decaying weights.

    `draft_step_s` are the seconds of one step of a draft model, or of one pass of a head that proposes a whole block;
    None before the first.
    """

    def __init__(self, verify: VerifyCost) -> None:
        self.verify = verify
        self._normal = np.zeros((3, 3))
        self._moment = np.zeros(3)
        self._coefficients = np.zeros(3)
        self.draft_step_s: float | None = None

    def __call__(self, n_rows: int, n_tokens: int, longest: int) -> float:
        """Return the expected seconds for `n_tokens` packed tokens of `n_rows` rows, `longest` in the longest."""
        fixed, per_row, per_cell = self._coefficients
        seconds = self.verify(n_tokens)
        return max(seconds + float(fixed + n_rows * (per_row + longest * per_cell)), 0.5 * seconds)

    def observe(self, n_rows: int, n_tokens: int, longest: int, seconds: float) -> None:
        """Refit to a round that took `seconds` after its draft."""
        verify = self.verify(n_tokens)
        extra = min(seconds - verify, _MAX_EXTRA * verify)
        features = np.array([1.0, n_rows, n_rows * longest])
        self._normal = _DECAY * self._normal + np.outer(features, features)
        self._moment = _DECAY * self._moment + features * extra
        solution = np.linalg.solve(self._normal + np.eye(3) * _RIDGE, self._moment)
        self._coefficients = np.array([solution[0], *np.maximum(solution[1:], 0.0)])

    def observe_draft(self, n_steps: int, seconds: float) -> None:
        """Learn from a draft that took `seconds` for `n_steps` steps."""
        if n_steps:
            step = seconds / n_steps
            old = step if self.draft_step_s is None else self.draft_step_s
            self.draft_step_s = (1 - _STEP_WEIGHT) * old + _STEP_WEIGHT * step


class PromptCost:
    """The seconds of a prompt's token in one model; more where its log-probabilities are asked for."""

    def __init__(self) -> None:
        self.token = CostEstimator()
        self.scored_token = CostEstimator()


class Costs:
    """The seconds of a prompt's tokens, of the next round, and of rounds by their shape.

    `prompts` are the costs of each model that reads prompts: the target, then what drafts. `next_round` is a round of
    the batch as it is now. `round_cost` says what another shape would take; it begins with measured verifies, so an
    engine asks for it when it warms up, and before the clock of its first request starts if it was not warmed up.
    """

    def __init__(self, n_models: int = 1, measure_verify: Callable[[], VerifyCost] | None = None) -> None:
        """`measure_verify` is needed by callers that ask for `round_cost`."""
        self.prompts = tuple(PromptCost() for _ in range(n_models))
        self.next_round = CostEstimator()
        self._measure_verify = measure_verify
        self._round_cost: RoundCost | None = None

    @property
    def round_cost(self) -> RoundCost:
        """The cost of a round by its shape, as measured and as learnt from the rounds of all requests so far."""
        if self._round_cost is None:
            assert self._measure_verify is not None
            self._round_cost = RoundCost(self._measure_verify())
        return self._round_cost

    def restart(self) -> None:
        """Begin a batch: what earlier ones measured only bounds the first estimates."""
        self.next_round.restart()
        for prompt in self.prompts:
            prompt.token.restart()
            prompt.scored_token.restart()

    def forget_rounds(self) -> None:
        """Measure rounds again when they are next asked for, because they are computed in another way now."""
        self._round_cost = None

    def get_known_prompt_s(self, n_tokens: int, *, scored: bool = False) -> float:
        """Return the seconds that reading `n_tokens` of a prompt has taken in all models together.

        `scored` tokens are the ones whose log-probabilities the target computes.
        """
        target = self.prompts[0].scored_token if scored else self.prompts[0].token
        return n_tokens * target.known_s + self.get_known_drafter_s(n_tokens)

    def get_known_drafter_s(self, n_tokens: int) -> float:
        """Return the part of `get_known_prompt_s` that is not the target's."""
        return n_tokens * sum(prompt.token.known_s for prompt in self.prompts[1:])

    def get_known_round_s(self, n_unread: int = 0) -> float:
        """Return the seconds that a round has taken in which the target also reads `n_unread` tokens of prompts."""
        return self.next_round.known_s + n_unread * self.prompts[0].token.known_s

    def get_expected_round_s(self, n_unread: int = 0) -> float:
        """Return the seconds that the next round will take in which the target also reads `n_unread` tokens."""
        return self.next_round.expected_s + n_unread * self.prompts[0].token.expected_s

    def observe_round(
        self, n_rows: int, n_tokens: int, longest: int, n_steps: int, draft_s: float, rest_s: float
    ) -> None:
        """Learn from a round that took `draft_s` for `n_steps` of what drafts, and then `rest_s`.

        It verified `n_tokens` packed tokens of `n_rows` rows, `longest` in the longest.
        """
        if self._round_cost is not None:
            self._round_cost.observe(n_rows, n_tokens, longest, rest_s)
            self._round_cost.observe_draft(n_steps, draft_s)
