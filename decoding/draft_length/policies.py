"""Policies that choose how many tokens to draft in the next round, and how many of them to verify.

A policy decides from finished rounds and from the evidence behind a draft, never from whether a draft token would be
accepted; otherwise decoding would not be lossless. Each batch has its own policy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from decoding.acceptance.rule import Draw
from decoding.costs import RoundCost
from decoding.draft_length.goodput import AcceptanceModel, choose_model_length, choose_row_lengths
from decoding.draft_length.profiles import Profile
from decoding.limits import MAX_DRAFT_LENGTH
from decoding.state.proposal import MODEL_EVIDENCE, Proposal


class DraftLengthPolicy(Protocol):
    """Chooses the draft length of each round."""

    def choose_limit(self, n_rows: int, n_samples: int) -> int:
        """Return the draft length limit of the next round, for `n_rows` rows with `n_samples` samples in all."""

    def choose_model_lengths(self, looked_up: Proposal, lengths: Sequence[int], n_samples: Sequence[int]) -> list[int]:
        """Return how many tokens a model is to draw for each row instead of the looked-up ones; 0 keeps the lookup.

        At most `lengths[r]`; `n_samples[r]` samples share row r.
        """

    def choose_verify_lengths(self, proposal: Proposal, n_samples: Sequence[int]) -> list[int]:
        """Return how many of each row's proposed tokens to verify; `n_samples[r]` samples share row r."""

    def observe(self, proposal: Proposal, draws: Sequence[Sequence[Draw]]) -> None:
        """Learn from a round: the verified proposal, and the draws of each sample of each row."""


LONG_MATCH = 4
"""Policies that do not learn let the model replace shorter lookup matches."""


class _WholeDraftPolicy:
    """Verifies all that is drafted, and does not learn."""

    def choose_model_lengths(self, looked_up: Proposal, lengths: Sequence[int], n_samples: Sequence[int]) -> list[int]:
        """Return the length where no long match was found."""
        return [
            0 if evidence and evidence[0].length >= LONG_MATCH else k
            for evidence, k in zip(looked_up.evidence, lengths, strict=True)
        ]

    def choose_verify_lengths(self, proposal: Proposal, n_samples: Sequence[int]) -> list[int]:
        """Return all of each row's tokens."""
        return [len(tokens) for tokens in proposal.tokens]

    def observe(self, proposal: Proposal, draws: Sequence[Sequence[Draw]]) -> None:
        """Do nothing."""


class FixedLength(_WholeDraftPolicy):
    """Drafts the same number of tokens in every round."""

    def __init__(self, k: int) -> None:
        self.k = k

    def choose_limit(self, n_rows: int, n_samples: int) -> int:
        """Return the fixed length."""
        return self.k


class BassLength(FixedLength):
    """Algorithm 1 of BASS (arXiv 2404.15778): grow when a sample accepted its whole draft, else shrink.

    The batch has one length. The start 7, the step 2, the divisor 10 and the limit 32 are the paper's.
    """

    START, STEP, DIVISOR, LIMIT = 7, 2, 10, MAX_DRAFT_LENGTH

    def __init__(self) -> None:
        super().__init__(self.START)
        self.shrank = 0

    def observe(self, proposal: Proposal, draws: Sequence[Sequence[Draw]]) -> None:
        """Apply the rule to the sample that accepted most tokens."""
        best = max(draw.n_accepted for own in draws for draw in own)
        if best >= self.k:
            self.k = min(self.k + self.STEP, self.LIMIT)
            self.shrank = 0
        else:
            self.k = max(1, best, self.k - math.ceil(self.k / self.DIVISOR) - self.shrank)
            self.shrank = 1


class TableLength(_WholeDraftPolicy):
    """Looks up the best length for the batch size in a stored profile (Su et al., arXiv 2310.18813)."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    def choose_limit(self, n_rows: int, n_samples: int) -> int:
        """Return the best length of the profiled batch size nearest to the number of samples in rows."""
        return self._profile.get_best_length(n_samples)


class GoodputLength:
    """Verifies the draft tokens that raise the expected tokens per second of the round, possibly none.

    This is the goodput of SmartSpec (arXiv 2406.14066) with two refinements that packed rows allow: rows have different
    draft lengths, and the acceptance rate depends on the evidence for each token (a lookup's match, or a draft model).
    `acceptance` and `cost` belong to the engine and keep what earlier requests taught.
    `looks_up` says that the drafter looks tokens up, at least in some rows, and does not only compute them.
    """

    def __init__(self, acceptance: AcceptanceModel, cost: RoundCost, *, looks_up: bool) -> None:
        self._acceptance = acceptance
        self._cost = cost
        self._looks_up = looks_up

    def choose_limit(self, n_rows: int, n_samples: int) -> int:
        """Return the best length for a model, and the longest allowed for a lookup, which takes no time."""
        if self._looks_up:
            return MAX_DRAFT_LENGTH
        return choose_model_length([0.0] * n_rows, [1] * n_rows, self._acceptance, self._cost)

    def choose_model_lengths(self, looked_up: Proposal, lengths: Sequence[int], n_samples: Sequence[int]) -> list[int]:
        """Return the best length for a model in the rows where it beats the lookup, for this round."""
        expected_from_lookup = [
            self._acceptance.estimate_n_accepted(evidence, tokens)
            for evidence, tokens in zip(looked_up.evidence, looked_up.tokens, strict=True)
        ]
        k = choose_model_length(expected_from_lookup, n_samples, self._acceptance, self._cost)
        expected_from_model = self._acceptance.estimate_n_accepted(MODEL_EVIDENCE, range(k))
        return [
            min(k, longest) if expected_from_model > known else 0
            for known, longest in zip(expected_from_lookup, lengths, strict=True)
        ]

    def choose_verify_lengths(self, proposal: Proposal, n_samples: Sequence[int]) -> list[int]:
        """Return the lengths with the highest expected tokens per second of the round."""
        return choose_row_lengths(proposal, n_samples, self._acceptance, self._cost)

    def observe(self, proposal: Proposal, draws: Sequence[Sequence[Draw]]) -> None:
        """Update the acceptance rates of each kind of evidence."""
        drafted = [len(tokens) for tokens in proposal.tokens]
        confidences = proposal.confidence or [()] * len(drafted)
        for evidence, n, confidence, own in zip(proposal.evidence, drafted, confidences, draws, strict=True):
            for draw in own:
                self._acceptance.observe(evidence, n, draw.n_accepted, confidence)
