"""Policies that choose how many tokens to draft in the next round, and how many of them to verify.

A policy decides from finished rounds and from the evidence behind a draft, never from whether a draft token would be
accepted; otherwise decoding would not be lossless. Each batch has its own policy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from decoding.config import MAX_DRAFT_LENGTH
from decoding.draft_length.goodput import AcceptanceModel, best_length, worth_verifying
from decoding.draft_length.profiles import Profile
from decoding.draft_length.round_cost import RoundCost
from decoding.drafters.base import Proposal


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a round, per sample: the evidence for its draft, the tokens verified, and those accepted.

    `counts` are the tokens per row in the verify. Drafting took `draft_s` seconds, the rest of the round `rest_s`.
    """

    evidence: tuple[int, ...]
    drafted: tuple[int, ...]
    accepted: tuple[int, ...]
    counts: tuple[int, ...]
    draft_s: float
    rest_s: float


class DraftLength(Protocol):
    """Chooses the draft length of each round."""

    def next(self, n_rows: int, n_samples: int) -> int:
        """Return the draft length limit of the next round, for `n_rows` rows with `n_samples` samples in all."""

    def trim(self, proposal: Proposal, n_samples: Sequence[int]) -> list[int]:
        """Return how many of each row's proposed tokens to verify; `n_samples[r]` samples share row r."""

    def observe(self, outcome: Outcome) -> None:
        """Learn from the round just finished."""


class FixedLength:
    """Drafts the same number of tokens in every round."""

    def __init__(self, k: int) -> None:
        self.k = k

    def next(self, n_rows: int, n_samples: int) -> int:
        """Return the fixed length."""
        return self.k

    def trim(self, proposal: Proposal, n_samples: Sequence[int]) -> list[int]:
        """Return all of each row's tokens."""
        return [len(tokens) for tokens in proposal.tokens]

    def observe(self, outcome: Outcome) -> None:
        """Do nothing: a fixed length does not learn."""


class BassLength(FixedLength):
    """Algorithm 1 of BASS (arXiv 2404.15778): grow when a sample accepted its whole draft, else shrink.

    The batch has one length. The start 7, the step 2, the divisor 10 and the limit 32 are the paper's.
    """

    START, STEP, DIVISOR, LIMIT = 7, 2, 10, MAX_DRAFT_LENGTH

    def __init__(self) -> None:
        super().__init__(self.START)
        self.shrank = 0

    def observe(self, outcome: Outcome) -> None:
        """Apply the rule to the sample that accepted most tokens."""
        best = max(outcome.accepted)
        if best >= self.k:
            self.k = min(self.k + self.STEP, self.LIMIT)
            self.shrank = 0
        else:
            self.k = max(1, best, self.k - math.ceil(self.k / self.DIVISOR) - self.shrank)
            self.shrank = 1


class TableLength(FixedLength):
    """Looks up the best length for the batch size in a stored profile (Su et al., arXiv 2310.18813)."""

    def __init__(self, profile: Profile) -> None:
        super().__init__(0)
        self._profile = profile

    def next(self, n_rows: int, n_samples: int) -> int:
        """Return the best length of the profiled batch size nearest to the number of unfinished samples."""
        return self._profile.best(n_samples)


class GoodputLength:
    """Verifies the draft tokens that raise the expected tokens per second of the round, possibly none.

    This is the goodput of SmartSpec (arXiv 2406.14066) with two refinements that packed rows allow: rows have different
    draft lengths, and the acceptance rate depends on the evidence behind a draft (the length of a lookup's match, or a
    draft model). `acceptance` and `cost` belong to the engine and keep what earlier requests taught.
    `drafts_cost_time` is False for drafters that only look tokens up.
    """

    def __init__(self, acceptance: AcceptanceModel, cost: RoundCost, *, drafts_cost_time: bool) -> None:
        self._acceptance = acceptance
        self._cost = cost
        self._drafts_cost_time = drafts_cost_time

    def next(self, n_rows: int, n_samples: int) -> int:
        """Return the best length for a draft model, and the longest allowed for a lookup, which takes no time."""
        if not self._drafts_cost_time:
            return MAX_DRAFT_LENGTH
        return best_length(n_rows, self._acceptance, self._cost)

    def trim(self, proposal: Proposal, n_samples: Sequence[int]) -> list[int]:
        """Return the lengths with the highest expected tokens per second of the round."""
        return worth_verifying(proposal, n_samples, self._acceptance, self._cost)

    def observe(self, outcome: Outcome) -> None:
        """Update the acceptance rates of each kind of evidence, and the time of a draft step and of a round."""
        for evidence, drafted, accepted in zip(outcome.evidence, outcome.drafted, outcome.accepted, strict=True):
            self._acceptance.observe(evidence, drafted, accepted)
        self._cost.observe(len(outcome.counts), sum(outcome.counts), max(outcome.counts), outcome.rest_s)
        if self._drafts_cost_time:
            self._acceptance.observe_draft_steps(max(outcome.drafted), outcome.draft_s)
