"""How many tokens to draft in the next round, and how many of these to verify.

A policy knows finished rounds and the evidence behind a draft, never a draft token's own outcome; that keeps the
decoding lossless. Each request has a policy of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from decoding.acceptance.rule import Draw
from decoding.draft_length.goodput import AcceptanceModel, best_length, worth_verifying
from decoding.draft_length.profiles import Profile
from decoding.draft_length.round_cost import RoundCost
from decoding.limits import MAX_DRAFT_LENGTH
from decoding.state.proposal import Proposal


class DraftLength(Protocol):
    """Chooses the draft length of each round."""

    def next(self, n_rows: int, n_samples: int) -> int:
        """Return the most tokens any of `n_rows` rows, with `n_samples` samples in all, may draft next."""

    def trim(self, proposal: Proposal, n_samples: Sequence[int]) -> list[int]:
        """Return how many of each row's proposed tokens are worth verifying for its `n_samples[r]` samples."""

    def observe(self, proposal: Proposal, draws: Sequence[Sequence[Draw]], draft_s: float, rest_s: float) -> None:
        """Learn from a round: what was verified, what each sample of each row drew, and the seconds it took.

        `rest_s` are the seconds of the round without those of the draft.
        """


class FixedLength:
    """The same k in every round."""

    def __init__(self, k: int) -> None:
        self.k = k

    def next(self, n_rows: int, n_samples: int) -> int:
        """Return k."""
        return self.k

    def trim(self, proposal: Proposal, n_samples: Sequence[int]) -> list[int]:
        """Return all of each row's tokens."""
        return [len(tokens) for tokens in proposal.tokens]

    def observe(self, proposal: Proposal, draws: Sequence[Sequence[Draw]], draft_s: float, rest_s: float) -> None:
        """Nothing to learn."""


class BassLength(FixedLength):
    """Algorithm 1 of BASS (arXiv 2404.15778): grow when some row took its whole draft, else shrink.

    One length for the whole batch. l0 = 7, +2, mod 10 and the limit 32 are the paper's constants.
    """

    START, STEP, DIVISOR, LIMIT = 7, 2, 10, MAX_DRAFT_LENGTH

    def __init__(self) -> None:
        super().__init__(self.START)
        self.shrank = 0

    def observe(self, proposal: Proposal, draws: Sequence[Sequence[Draw]], draft_s: float, rest_s: float) -> None:
        """Apply the rule to the sample that accepted most."""
        best = max(draw.n_accepted for own in draws for draw in own)
        if best >= self.k:
            self.k = min(self.k + self.STEP, self.LIMIT)
            self.shrank = 0
        else:
            self.k = max(1, best, self.k - math.ceil(self.k / self.DIVISOR) - self.shrank)
            self.shrank = 1


class TableLength(FixedLength):
    """The length that a stored profile found best for the batch size (Su et al., arXiv 2310.18813)."""

    def __init__(self, profile: Profile) -> None:
        super().__init__(0)
        self._profile = profile

    def next(self, n_rows: int, n_samples: int) -> int:
        """Return the entry of the profiled batch size nearest to the samples still being decoded."""
        return self._profile.best(n_samples)


class GoodputLength:
    """Verifies a draft token only if its chance to stand pays for the time it takes; no token at all if none does.

    The goodput of SmartSpec (arXiv 2406.14066), emitted tokens per second, with two refinements that packed rows make
    possible: each row has a length of its own, and a draft is judged by the evidence behind it (the length of a
    lookup's match, the draft model's record). `acceptance` and `cost` belong to the engine and outlive the request.
    """

    def __init__(self, acceptance: AcceptanceModel, cost: RoundCost, *, drafts_cost_time: bool) -> None:
        self._acceptance = acceptance
        self._cost = cost
        self._drafts_cost_time = drafts_cost_time

    def next(self, n_rows: int, n_samples: int) -> int:
        """Return the best common length where each step costs time, else the longest allowed."""
        if not self._drafts_cost_time:
            return MAX_DRAFT_LENGTH
        return best_length(n_rows, self._acceptance, self._cost)

    def trim(self, proposal: Proposal, n_samples: Sequence[int]) -> list[int]:
        """Return the lengths that make the round's expected tokens per second highest."""
        return worth_verifying(proposal, n_samples, self._acceptance, self._cost)

    def observe(self, proposal: Proposal, draws: Sequence[Sequence[Draw]], draft_s: float, rest_s: float) -> None:
        """Update the acceptance record of each kind of evidence, and what a draft step and a round cost."""
        drafted = [len(tokens) for tokens in proposal.tokens]
        for evidence, n, own in zip(proposal.evidence, drafted, draws, strict=True):
            for draw in own:
                self._acceptance.observe(evidence, n, draw.n_accepted)
        self._cost.observe(len(drafted), len(drafted) + sum(drafted), 1 + max(drafted), rest_s)
        if self._drafts_cost_time:
            self._acceptance.observe_draft_steps(max(drafted), draft_s)
