"""Chooses the draft tokens of a round that maximize its goodput: expected emitted tokens per second (arXiv 2406.14066).

Let a round emit E tokens in t seconds. Another draft token that survives with probability S and makes the round dt
seconds longer raises the goodput if S / dt > E / t. A token survives if it and all tokens before it are accepted, so
S falls along a draft, and taking tokens in descending order of S takes a prefix of each row's draft.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Sequence, Sized

from decoding.costs import RoundCost
from decoding.limits import MAX_DRAFT_LENGTH
from decoding.state.proposal import MODEL_EVIDENCE, Evidence, Match, Proposal

# A model's acceptance is counted per depth up to this one. Beyond the first tokens it hardly depends on the depth.
_DEPTHS = 4
# A head's confidences are counted in this many classes of equal width: what happens corrects what it says.
_CLASSES = 10
# The acceptance rate of a model before the first round.
_PRIOR = 0.85
# The prior counts as this many draft tokens, so that a few rounds outweigh it.
_PRIOR_WEIGHT = 4.0
# Each new draft token multiplies the older counts by this, which halves them in 200 tokens: the text changes.
_DECAY = 0.9965
# After this many rounds without a draft, one is verified although it does not pay, to measure acceptance again.
_EXPLORE_EVERY = 12
# A model drafts this many tokens in its first round, which measures the time of a step.
_FIRST_MODEL_LENGTH = 4
# Keep adding tokens while the rate is at least 90 % of the best: costs rise in steps, and a token that does not pay
# may be followed by some that do.
_MIN_SHARE_OF_BEST = 0.9
# The optimum is flat. Of all plans with at least 98 % of the best rate, take the one with the shortest round.
_GOOD_ENOUGH = 0.98

_Cell = tuple[str, int]
"""What a rate of a model's tokens is counted by: their depth, or the class of their confidence."""


# Fitted to 49,000 looked-up tokens of qwen2.5-coder-0.5b and smollm2-135m, which differ little.
_START = (-0.5, 0.8, 2.7)
# How far one token moves the weights: they follow another model or another kind of text within some hundred tokens.
_RATE = 0.02
# A longer match is not more certain.
_LONGEST = 64


class MatchChance:
    """A logistic regression on the logarithm of the match's length and on the share of its continuations.

    Learned from each token that the target has compared. Classes of lengths and shares with a rate each learn more
    slowly, because rare ones teach the others nothing, and choose worse draft lengths.
    """

    def __init__(self) -> None:
        self._weights = _START

    def __call__(self, match: Match) -> float:
        """Return the probability that a token is accepted if those before it are."""
        bias, by_length, by_share = self._weights
        score = bias + by_length * math.log2(min(match.length, _LONGEST)) + by_share * (match.share - 1)
        return 1 / (1 + math.exp(-score))

    def observe(self, match: Match, *, accepted: bool) -> None:
        """Take a step of gradient descent for a token that was accepted or not."""
        step = _RATE * (accepted - self(match))
        bias, by_length, by_share = self._weights
        length = math.log2(min(match.length, _LONGEST))
        self._weights = bias + step, by_length + step * length, by_share + step * (match.share - 1)


class RoundsWithoutDraft:
    """Counts the rounds since the last draft; after `_EXPLORE_EVERY` of them one is due although it does not pay."""

    def __init__(self) -> None:
        self._n_rounds = 0

    @property
    def is_draft_due(self) -> bool:
        """Whether so many rounds had no draft that acceptance has to be measured again."""
        return self._n_rounds >= _EXPLORE_EVERY

    def record(self, *, has_draft: bool) -> None:
        """Count a round."""
        self._n_rounds = 0 if has_draft else self._n_rounds + 1


class AcceptanceModel:
    """The acceptance rate of draft tokens whose predecessors were accepted: a lookup's by match, a model's by depth.

    Where a head says for each token how confident it is, also by confidence. `tokens_per_step` are the tokens that one
    step of a model proposes: 1, or the whole block of a head. `rounds_without_draft` are those in which none was
    verified, `rounds_without_model_draft` those in which a model was to draw none.
    """

    def __init__(self, tokens_per_step: int = 1) -> None:
        self.tokens_per_step = tokens_per_step
        self._matches = MatchChance()
        self._accepted: defaultdict[_Cell, float] = defaultdict(float)
        self._tried: defaultdict[_Cell, float] = defaultdict(float)
        self.rounds_without_draft = RoundsWithoutDraft()
        self.rounds_without_model_draft = RoundsWithoutDraft()

    @property
    def is_head(self) -> bool:
        """Whether a step of the model proposes a whole block."""
        return self.tokens_per_step > 1

    def observe(self, evidence: Evidence, drafted: int, accepted: int, confidence: Sequence[float] = ()) -> None:
        """Record a row's round: `accepted` of `drafted` tokens were accepted, and the next one, if any, was not."""
        for depth in range(min(drafted, accepted + 1)):
            if evidence:
                self._matches.observe(evidence[depth], accepted=depth < accepted)
                continue
            cells = [_get_depth_cell(depth)]
            if depth < len(confidence):
                cells.append(_get_confidence_cell(confidence[depth]))
            for cell in cells:
                self._tried[cell] = self._tried[cell] * _DECAY + 1
                self._accepted[cell] = self._accepted[cell] * _DECAY + (depth < accepted)

    def count_steps(self, n_tokens: int) -> int:
        """Return the steps in which a model drafts `n_tokens` tokens a row."""
        return -(-n_tokens // self.tokens_per_step)

    def estimate_n_accepted(self, evidence: Evidence, tokens: Sized) -> float:
        """Return how many of `tokens`, all drafted for this evidence, are accepted on average."""
        survival, expected = 1.0, 0.0
        for depth in range(len(tokens)):
            survival *= self.estimate_acceptance(evidence, depth)
            expected += survival
        return expected

    def estimate_acceptance(self, evidence: Evidence, depth: int) -> float:
        """Return the probability that draft token `depth` (from 0) is accepted if those before it are."""
        return self._matches(evidence[depth]) if evidence else self._compute_rate(_get_depth_cell(depth), _PRIOR)

    def estimate_token_acceptance(self, proposal: Proposal, row: int, depth: int) -> float:
        """Return the probability that token `depth` of a row's draft is accepted if those before it are."""
        if proposal.confidence and depth < len(proposal.confidence[row]):
            confidence = proposal.confidence[row][depth]
            return self._compute_rate(_get_confidence_cell(confidence), confidence)
        return self.estimate_acceptance(proposal.evidence[row], depth)

    def _compute_rate(self, cell: _Cell, prior: float) -> float:
        return (self._accepted[cell] + prior * _PRIOR_WEIGHT) / (self._tried[cell] + _PRIOR_WEIGHT)


def _get_depth_cell(depth: int) -> _Cell:
    return "depth", min(depth, _DEPTHS - 1)


def _get_confidence_cell(confidence: float) -> _Cell:
    return "confidence", min(int(confidence * _CLASSES), _CLASSES - 1)


def choose_row_lengths(
    proposal: Proposal, n_samples: Sequence[int], acceptance: AcceptanceModel, cost: RoundCost
) -> list[int]:
    """Return the number of draft tokens per row that maximizes the expected tokens per second of this round.

    An accepted token of row r counts `n_samples[r]` times, because that many samples share the row. The result may be
    0 for every row.
    """
    n_rows, idle = len(proposal.tokens), acceptance.rounds_without_draft
    queue = [
        (-n_samples[row] * acceptance.estimate_token_acceptance(proposal, row, 0), row)
        for row, tokens in enumerate(proposal.tokens)
        if tokens
    ]
    heapq.heapify(queue)
    if queue and idle.is_draft_due:
        idle.record(has_draft=True)
        best_row = queue[0][1]
        return [int(row == best_row) for row in range(n_rows)]
    order, rates = _add_best_tokens(queue, proposal, n_samples, acceptance, cost)
    enough = _GOOD_ENOUGH * max(rates)
    n_drafts = next(n for n, rate in enumerate(rates) if rate >= enough)
    idle.record(has_draft=n_drafts > 0)
    return [order[:n_drafts].count(row) for row in range(n_rows)]


def _add_best_tokens(
    queue: list[tuple[float, int]],
    proposal: Proposal,
    n_samples: Sequence[int],
    acceptance: AcceptanceModel,
    cost: RoundCost,
) -> tuple[list[int], list[float]]:
    """Add the token with the highest gain again and again while it may pay; return the row of each, and `rates`.

    A gain is the number of samples that are expected to accept the token. `queue` is a heap of (minus the gain of the
    next token, row) of the rows that have a draft. `rates[n]` are the expected tokens per second with the first n
    tokens.
    """
    n_rows = len(proposal.tokens)
    lengths, longest, n_tokens = [0] * n_rows, 0, n_rows
    expected = float(sum(n_samples))  # tokens of the round: each sample gets one without a draft
    order: list[int] = []
    rates = [expected / cost(n_rows, n_tokens, 1)]
    while queue and rates[-1] >= _MIN_SHARE_OF_BEST * max(rates):
        negative_gain, row = heapq.heappop(queue)
        gain = -negative_gain
        order.append(row)
        lengths[row] += 1
        longest = max(longest, lengths[row])
        n_tokens += 1
        expected += gain
        rates.append(expected / cost(n_rows, n_tokens, 1 + longest))
        depth = lengths[row]  # of the row's next token, which is accepted only if this one is
        if depth < len(proposal.tokens[row]):
            heapq.heappush(queue, (-gain * acceptance.estimate_token_acceptance(proposal, row, depth), row))
    return order, rates


def choose_model_length(
    expected_from_lookup: Sequence[float], n_samples: Sequence[int], acceptance: AcceptanceModel, cost: RoundCost
) -> int:
    """Return the draft length of a model, one for all rows, that maximizes expected tokens per second.

    `expected_from_lookup[r]` are the tokens that row r expects from a lookup, 0 without one, and `n_samples[r]` samples
    share it. The model drafts for the rows in which it expects more; a step of it takes the same time however many
    these are. A head whose step proposes a block proposes all of it: what to verify is decided when its confidences are
    known.
    """
    step_s = cost.draft_step_s
    if step_s is None:
        return _FIRST_MODEL_LENGTH
    n_rows, idle = len(expected_from_lookup), acceptance.rounds_without_model_draft
    best_length, best_rate = 0, 0.0
    survival, expected_from_model = 1.0, 0.0
    for k in range((acceptance.tokens_per_step if acceptance.is_head else MAX_DRAFT_LENGTH) + 1):
        if k:
            survival *= acceptance.estimate_acceptance(MODEL_EVIDENCE, k - 1)
            expected_from_model += survival
        # A lookup's draft is cut about where the tokens that it expects end.
        lengths = [k if expected_from_model > known else math.ceil(known) for known in expected_from_lookup]
        expected = sum(
            n * (1 + max(expected_from_model, known)) for n, known in zip(n_samples, expected_from_lookup, strict=True)
        )
        draft_s = acceptance.count_steps(k) * step_s
        rate = expected / (draft_s + cost(n_rows, n_rows + sum(lengths), max(lengths) + 1))
        if rate > best_rate:
            best_length, best_rate = k, rate
    idle.record(has_draft=best_length > 0)
    if idle.is_draft_due:
        idle.record(has_draft=True)
        return acceptance.tokens_per_step
    return acceptance.tokens_per_step if best_length and acceptance.is_head else best_length
