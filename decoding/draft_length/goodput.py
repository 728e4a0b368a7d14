"""Expected tokens per second of a round: which draft tokens are worth their place in the verify.

Adding a token with a chance S to stand to a round that emits E tokens in t seconds pays if S / dt > E / t. Survival
falls along a draft, so taking tokens in the order of S takes a prefix of every row's draft.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence

from decoding.draft_length.round_cost import RoundCost
from decoding.limits import MAX_DRAFT_LENGTH
from decoding.state.proposal import MODEL_EVIDENCE, Proposal

# Depths are told apart up to here: the first tokens of a draft differ, later ones hardly do.
_DEPTHS = 4
# A prior worth this many draft tokens, so that a few rounds settle the matter.
_PRIOR_WEIGHT = 4.0
# The record halves about every 200 draft tokens: text changes, and so does its drafter's luck.
_FADE = 0.9965
# Now and then a draft is verified that does not seem to pay, or a poor record could never improve.
_EXPLORE_EVERY = 12
_LOOK_ON = 0.9
# The optimum is flat: of plans that are as good, the shortest round is the one that a waiting sample prefers.
_GOOD_ENOUGH = 0.98


class AcceptanceModel:
    """How often a draft token stood, given that those before it did, by evidence and depth."""

    def __init__(self) -> None:
        self._stood: defaultdict[tuple[int, int], float] = defaultdict(float)
        self._tried: defaultdict[tuple[int, int], float] = defaultdict(float)
        self.draft_step_s: float | None = None
        self.rounds_without = 0

    def observe(self, evidence: int, drafted: int, accepted: int) -> None:
        """Record a row's round: `accepted` of `drafted` tokens stood, and the next one, if any, did not."""
        for depth in range(min(drafted, accepted + 1)):
            cell = (evidence, min(depth, _DEPTHS - 1))
            self._tried[cell] = self._tried[cell] * _FADE + 1
            self._stood[cell] = self._stood[cell] * _FADE + (depth < accepted)

    def observe_draft_steps(self, n_steps: int, seconds: float) -> None:
        """Record what drafting `n_steps` tokens with a model took."""
        if n_steps:
            step = seconds / n_steps
            self.draft_step_s = step if self.draft_step_s is None else 0.9 * self.draft_step_s + 0.1 * step

    def chance(self, evidence: int, depth: int) -> float:
        """Return the chance that a draft's token number `depth` (from 0) stands if those before it do."""
        cell = (evidence, min(depth, _DEPTHS - 1))
        # Longer matches are better drafts; a draft model is trusted like a good match.
        prior = 0.85 if evidence == MODEL_EVIDENCE else min(0.4 + 0.1 * evidence + 0.1 * min(depth, 2), 0.9)
        return (self._stood[cell] + prior * _PRIOR_WEIGHT) / (self._tried[cell] + _PRIOR_WEIGHT)


def worth_verifying(
    proposal: Proposal, n_samples: Sequence[int], acceptance: AcceptanceModel, cost: RoundCost
) -> list[int]:
    """Return each row's number of draft tokens for the highest expected tokens per second of this round.

    A token that stands is worth as many as the `n_samples[r]` samples that share its row.
    """
    n_rows = len(proposal.tokens)
    lengths, longest, n_tokens = [0] * n_rows, 0, n_rows
    expected = float(sum(n_samples))
    order: list[int] = []
    rates = [expected / cost(n_rows, n_tokens, 1)]
    queue = [
        (-n_samples[row] * acceptance.chance(evidence, 0), row)
        for row, (tokens, evidence) in enumerate(zip(proposal.tokens, proposal.evidence, strict=True))
        if tokens
    ]
    heapq.heapify(queue)
    if queue and acceptance.rounds_without >= _EXPLORE_EVERY:
        acceptance.rounds_without = 0
        return [int(row == queue[0][1]) for row in range(n_rows)]
    # Costs rise in steps, so a token that does not pay may be followed by some that do: look on a little.
    while queue and rates[-1] >= _LOOK_ON * max(rates):
        worth, row = heapq.heappop(queue)
        order.append(row)
        lengths[row] += 1
        longest = max(longest, lengths[row])
        expected -= worth
        n_tokens += 1
        rates.append(expected / cost(n_rows, n_tokens, 1 + longest))
        depth = lengths[row]
        if depth < len(proposal.tokens[row]):
            heapq.heappush(queue, (worth * acceptance.chance(proposal.evidence[row], depth), row))
    enough = _GOOD_ENOUGH * max(rates)
    n_drafts = next(n for n, rate in enumerate(rates) if rate >= enough)
    acceptance.rounds_without = 0 if n_drafts else acceptance.rounds_without + 1
    return [order[:n_drafts].count(row) for row in range(n_rows)]


def best_length(n_rows: int, acceptance: AcceptanceModel, cost: RoundCost) -> int:
    """Return the common draft length of a draft model for the highest expected tokens per second, 0 allowed."""
    step = acceptance.draft_step_s
    if step is None:
        return 4  # the first round measures what a step costs
    expected = survival = 1.0
    best, best_rate = 0, 1 / cost(n_rows, n_rows, 1)
    for k in range(1, MAX_DRAFT_LENGTH + 1):
        survival *= acceptance.chance(MODEL_EVIDENCE, k - 1)
        expected += survival
        rate = expected / (k * step + cost(n_rows, n_rows * (k + 1), k + 1))
        if rate > best_rate:
            best, best_rate = k, rate
    if best == 0:
        acceptance.rounds_without += 1
        if acceptance.rounds_without >= _EXPLORE_EVERY:
            acceptance.rounds_without = 0
            return 1
    return best
