"""What the work of an engine takes: one object that everything which takes time asks and reports to."""

from __future__ import annotations

from collections.abc import Callable

from decoding.costs.rounds import RoundCost
from decoding.costs.timer import CostEstimator
from decoding.costs.verify import VerifyCost


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
