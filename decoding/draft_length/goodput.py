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

from decoding.costs.rounds import RoundCost
from decoding.limits import MAX_DRAFT_LENGTH
from decoding.state.proposal import MODEL_EVIDENCE, Proposal

# Acceptance is counted per depth up to this one. Beyond the first tokens of a draft it hardly depends on the depth.
_DEPTHS = 4
# The prior counts as this many draft tokens, so that a few rounds outweigh it.
_PRIOR_WEIGHT = 4.0
# Each new draft token multiplies the older counts by this, which halves them in 200 tokens: the text changes.
_DECAY = 0.9965
# After this many rounds without a draft, one is verified although it does not pay, to measure acceptance again.
_EXPLORE_EVERY = 12
# Keep adding tokens while the rate is at least 90 % of the best: costs rise in steps, and a token that does not pay
# may be followed by some that do.
_MIN_SHARE_OF_BEST = 0.9
# The optimum is flat. Of all plans with at least 98 % of the best rate, take the one with the shortest round.
_GOOD_ENOUGH = 0.98


class AcceptanceModel:
    """The acceptance rate of draft tokens whose predecessors were accepted, by evidence and depth.

    `rounds_without_draft` counts rounds since a draft was last verified, `rounds_not_drawn` those since a model was
    last to draw one.
    """

    def __init__(self) -> None:
        self._accepted: defaultdict[tuple[int, int], float] = defaultdict(float)
        self._tried: defaultdict[tuple[int, int], float] = defaultdict(float)
        self.rounds_without_draft = 0
        self.rounds_not_drawn = 0

    def observe(self, evidence: int, drafted: int, accepted: int) -> None:
        """Record a row's round: `accepted` of `drafted` tokens were accepted, and the next one, if any, was not."""
        for depth in range(min(drafted, accepted + 1)):
            cell = (evidence, min(depth, _DEPTHS - 1))
            self._tried[cell] = self._tried[cell] * _DECAY + 1
            self._accepted[cell] = self._accepted[cell] * _DECAY + (depth < accepted)

    def expected(self, evidence: int, tokens: Sized) -> float:
        """Return how many of `tokens`, all drafted for this evidence, are accepted on average."""
        survival, expected = 1.0, 0.0
        for depth in range(len(tokens)):
            survival *= self.probability(evidence, depth)
            expected += survival
        return expected

    def probability(self, evidence: int, depth: int) -> float:
        """Return the probability that draft token `depth` (from 0) is accepted if those before it are."""
        cell = (evidence, min(depth, _DEPTHS - 1))
        # Prior: longer matches are better drafts, and a draft model is as good as a long match.
        prior = 0.85 if evidence == MODEL_EVIDENCE else min(0.4 + 0.1 * evidence + 0.1 * min(depth, 2), 0.9)
        return (self._accepted[cell] + prior * _PRIOR_WEIGHT) / (self._tried[cell] + _PRIOR_WEIGHT)


def worth_verifying(
    proposal: Proposal, n_samples: Sequence[int], acceptance: AcceptanceModel, cost: RoundCost
) -> list[int]:
    """Return the number of draft tokens per row that maximizes the expected tokens per second of this round.

    An accepted token of row r counts `n_samples[r]` times, because that many samples share the row. The result may be
    0 for every row.
    """
    n_rows = len(proposal.tokens)
    lengths, longest, n_tokens = [0] * n_rows, 0, n_rows
    expected = float(sum(n_samples))
    order: list[int] = []
    rates = [expected / cost(n_rows, n_tokens, 1)]
    queue = [
        (-n_samples[row] * acceptance.probability(evidence, 0), row)
        for row, (tokens, evidence) in enumerate(zip(proposal.tokens, proposal.evidence, strict=True))
        if tokens
    ]
    heapq.heapify(queue)
    if queue and acceptance.rounds_without_draft >= _EXPLORE_EVERY:
        acceptance.rounds_without_draft = 0
        return [int(row == queue[0][1]) for row in range(n_rows)]
    while queue and rates[-1] >= _MIN_SHARE_OF_BEST * max(rates):
        negative_gain, row = heapq.heappop(queue)
        order.append(row)
        lengths[row] += 1
        longest = max(longest, lengths[row])
        expected -= negative_gain
        n_tokens += 1
        rates.append(expected / cost(n_rows, n_tokens, 1 + longest))
        depth = lengths[row]
        if depth < len(proposal.tokens[row]):
            heapq.heappush(queue, (negative_gain * acceptance.probability(proposal.evidence[row], depth), row))
    enough = _GOOD_ENOUGH * max(rates)
    n_drafts = next(n for n, rate in enumerate(rates) if rate >= enough)
    acceptance.rounds_without_draft = 0 if n_drafts else acceptance.rounds_without_draft + 1
    return [order[:n_drafts].count(row) for row in range(n_rows)]


def best_length(
    looked_up: Sequence[float], n_samples: Sequence[int], acceptance: AcceptanceModel, cost: RoundCost
) -> int:
    """Return the draft length of a model, one for all rows, that maximizes expected tokens per second.

    `looked_up[r]` are the tokens that row r expects from a lookup, 0 without one, and `n_samples[r]` samples share it.
    The model drafts for the rows in which it expects more; a step of it takes the same time however many these are.
    """
    step = cost.draft_step_s
    if step is None:
        return 4  # the first round measures the time of a step
    n_rows = len(looked_up)
    survival, drawn = 1.0, 0.0
    best, best_rate = 0, 0.0
    for k in range(MAX_DRAFT_LENGTH + 1):
        if k:
            survival *= acceptance.probability(MODEL_EVIDENCE, k - 1)
            drawn += survival
        # A lookup's draft is cut about where the tokens that it expects end.
        lengths = [k if drawn > known else math.ceil(known) for known in looked_up]
        n_drafted, longest = sum(lengths), max(lengths)
        expected = sum(n * (1 + max(drawn, known)) for n, known in zip(n_samples, looked_up, strict=True))
        rate = expected / (k * step + cost(n_rows, n_rows + n_drafted, longest + 1))
        if rate > best_rate:
            best, best_rate = k, rate
    acceptance.rounds_not_drawn = 0 if best else acceptance.rounds_not_drawn + 1
    if acceptance.rounds_not_drawn >= _EXPLORE_EVERY:
        acceptance.rounds_not_drawn = 0
        return 1
    return best
