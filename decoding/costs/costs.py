"""What the work of an engine costs: one object that all who take time ask and report to."""

from __future__ import annotations

from collections.abc import Callable

from decoding.costs.rounds import RoundCost
from decoding.costs.timer import CostTimer
from decoding.costs.verify import VerifyCost


class Costs:
    """The seconds of a prompt's tokens, of the next round, and of rounds by their shape.

    `tokens` are the seconds of a prompt's token in each model that reads prompts: the target, then what drafts.
    `round` is a round of the batch as it is now. `rounds` says what another shape would take; it begins with measured
    verifies, so an engine asks for it when it warms up, and before the clock of its first request if it was not.
    """

    def __init__(self, n_models: int = 1, measure_verify: Callable[[], VerifyCost] | None = None) -> None:
        """`measure_verify` is needed by those who ask for `rounds`."""
        self.tokens = tuple(CostTimer() for _ in range(n_models))
        self.round = CostTimer()
        self._measure_verify = measure_verify
        self._rounds: RoundCost | None = None

    @property
    def rounds(self) -> RoundCost:
        """The cost of a round by its shape, as measured and as learnt from the rounds of all requests so far."""
        if self._rounds is None:
            assert self._measure_verify is not None
            self._rounds = RoundCost(self._measure_verify())
        return self._rounds

    def restart(self) -> None:
        """Begin a batch: what earlier ones measured only bounds the first estimates."""
        for timer in (self.round, *self.tokens):
            timer.restart()

    def forget_rounds(self) -> None:
        """Measure rounds again when they are next asked for, because they are computed in another way now."""
        self._rounds = None

    def known_prompt_s(self, n_tokens: int) -> float:
        """Return the seconds that reading `n_tokens` of a prompt has taken in all models together."""
        return n_tokens * sum(timer.known_s for timer in self.tokens)

    def expected_prompt_s(self, n_tokens: int) -> float:
        """Return the seconds that reading `n_tokens` of a prompt will take in all models together."""
        return n_tokens * sum(timer.expected_s for timer in self.tokens)

    def known_drafter_s(self, n_tokens: int) -> float:
        """Return what of `known_prompt_s` is not the target's."""
        return n_tokens * sum(timer.known_s for timer in self.tokens[1:])

    def observe_round(
        self, n_rows: int, n_tokens: int, longest: int, n_steps: int, draft_s: float, rest_s: float
    ) -> None:
        """Learn from a round that took `draft_s` for `n_steps` of what drafts, and then `rest_s`.

        It verified `n_tokens` packed tokens of `n_rows` rows, `longest` in the longest.
        """
        if self._rounds is not None:
            self._rounds.observe(n_rows, n_tokens, longest, rest_s)
            self._rounds.observe_draft(n_steps, draft_s)
