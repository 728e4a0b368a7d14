"""The one tail of both kinds of rounds: each sample's tokens with the target's own log-probabilities."""

from __future__ import annotations

import pytest
import torch

from decoding.acceptance.coupled import CoupledRule
from decoding.acceptance.rule import Positions, accept_drafts, build_draws
from decoding.acceptance.sampling import to_distributions
from decoding.request import SamplingParams
from kernels.rows import NO_TOKEN


@pytest.mark.parametrize("scores_kept_only", [True, False])
def test_a_sample_takes_the_accepted_tokens_and_one_more_with_their_logprobs(scores_kept_only: bool) -> None:
    logits = torch.randn(4, 50, generator=torch.Generator().manual_seed(0))
    greedy = SamplingParams(0.0)
    best = logits.argmax(dim=1).tolist()
    where = Positions(torch.tensor([[0, 1, 2], [3, 3, 3]]), torch.tensor([[5, 6, 7], [9, 10, 11]]))
    draft = torch.tensor([[best[0], (best[1] + 1) % 50], [NO_TOKEN, NO_TOKEN]])
    p, seeds = to_distributions(logits, [greedy] * 4), torch.tensor([1, 2])

    decided = accept_drafts(
        CoupledRule().accept, logits, p, where, draft, seeds, None, scores_kept_only=scores_kept_only
    )
    first, second = build_draws(decided.tolist())

    assert (first.n_accepted, first.tokens) == (1, (best[0], best[1]))
    assert (second.n_accepted, second.tokens) == (0, (best[3],))
    expected = logits.log_softmax(dim=1)
    assert first.logprobs == pytest.approx([float(expected[i, best[i]]) for i in (0, 1)], abs=1e-5)
    assert second.logprobs == pytest.approx([float(expected[3, best[3]])], abs=1e-5)


def test_likelier_tokens_follow_the_tokens_of_their_sample() -> None:
    tops = [((1, -0.1),), ((2, -0.2),), ((3, -0.3),)]
    first, second = build_draws([[1, 7, 8, 0, -1.0, -2.0, 0], [0, 9, 0, 0, -3.0, 0, 0]], tops)
    assert (first.tokens, first.logprobs, first.top) == ((7, 8), (-1.0, -2.0), tuple(tops[:2]))
    assert (second.tokens, second.logprobs, second.top) == ((9,), (-3.0,), tuple(tops[2:]))
