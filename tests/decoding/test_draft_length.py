"""Algorithm 1 of BASS, step by step, and the draft lengths a user may name."""

import pytest
import torch

from decoding.acceptance.distribution import Distribution
from decoding.acceptance.rule import Draw
from decoding.config import EngineConfig
from decoding.costs import RoundCost, VerifyCost
from decoding.draft_length.goodput import AcceptanceModel
from decoding.draft_length.policies import LONG_MATCH, BassLength, DraftLengthPolicy, FixedLength, GoodputLength
from decoding.limits import MAX_DRAFT_LENGTH
from decoding.request import RequestError
from decoding.state.proposal import MODEL_EVIDENCE, ON_DEVICE, Evidence, Proposal
from tests.decoding.test_goodput import matches


def observe(
    policy: DraftLengthPolicy,
    *accepted: int,
    drafted: int = 32,
    evidence: Evidence = MODEL_EVIDENCE,
    draft_s: float = 0.0,
    rest_s: float = 0.1,
) -> None:
    """Tell the policy, and the costs that it asks, of a round of one sample per row with `drafted` tokens each."""
    proposal = Proposal([[7] * drafted for _ in accepted], [evidence] * len(accepted))
    draws = [[Draw(n, (7,) * (n + 1), (0.0,) * (n + 1))] for n in accepted]
    policy.choose_verify_lengths(
        proposal, [1] * len(accepted)
    )  # a policy sees the whole draft before it sees what became of it
    policy.observe(proposal, draws)
    if isinstance(policy, GoodputLength):
        n_rows = len(accepted)
        policy._cost.observe(n_rows, n_rows * (1 + drafted), 1 + drafted, rest_s)
        policy._cost.observe_draft(0 if evidence else drafted, draft_s)


def lengths(*best: int) -> list[int]:
    policy = BassLength()
    seen = [policy.choose_limit(8, 8)]
    for accepted in best:
        observe(policy, 0, accepted, 0)
        seen.append(policy.choose_limit(8, 8))
    return seen


def test_grows_by_two_while_some_row_takes_its_whole_draft() -> None:
    assert lengths(7, 9, 11) == [7, 9, 11, 13]


def test_never_passes_32() -> None:
    policy = BassLength()
    for _ in range(40):
        observe(policy, policy.choose_limit(1, 1))
    assert policy.choose_limit(1, 1) == 32


def test_shrinks_faster_while_shrinking_repeatedly() -> None:
    # 7 - ceil(7/10) - 0 = 6; then 6 - 1 - 1 = 4; then 4 - 1 - 1 = 2; then 2 - 1 - 1 = 0, but never below 1
    assert lengths(0, 0, 0, 0, 0) == [7, 6, 4, 2, 1, 1]


def test_never_shrinks_below_the_best_row() -> None:
    assert lengths(6, 5) == [7, 6, 5]
    assert lengths(0, 5) == [7, 6, 5]


def test_growth_ends_a_streak_of_shrinking() -> None:
    assert lengths(0, 6, 0) == [7, 6, 8, 7]


def test_from_20_on_the_tenth_counts_more() -> None:
    policy = BassLength()
    policy.k = 21
    observe(policy, 0)
    assert policy.choose_limit(1, 1) == 18


def test_fixed_is_fixed() -> None:
    policy = FixedLength(4)
    observe(policy, 0, 0)
    assert [policy.choose_limit(1, 1), policy.choose_limit(8, 8)] == [4, 4]


@pytest.mark.parametrize("text", ["fixed:", "fixed:33", "fixed:-1", "fixed:x", "magic", ""])
def test_an_unknown_length_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(RequestError, match="goodput, bass, table or fixed:K"):
        EngineConfig(target="x", draft_length=text)


def goodput(slope: float, *, looks_up: bool = True) -> GoodputLength:
    """A policy on a machine where each further token makes a verify dearer by `slope` of the first."""
    cost = RoundCost(VerifyCost((1, 101), (1.0, 1.0 + 100 * slope)))
    return GoodputLength(AcceptanceModel(), cost, looks_up=looks_up)


def test_goodput_learns_from_accepted_tokens() -> None:
    policy = goodput(0.2)
    found = Proposal([[1] * 6], [matches(3, 6)])
    for _ in range(60):
        observe(policy, 6, drafted=6, evidence=matches(3, 6), rest_s=2.2)
    assert policy.choose_verify_lengths(found, [1]) == [6]
    for _ in range(300):
        observe(policy, 0, drafted=6, evidence=matches(3, 6), rest_s=2.2)
    assert policy.choose_verify_lengths(found, [1]) == [0]


def test_goodput_gives_a_draft_model_fewer_steps_the_dearer_they_are() -> None:
    lengths = []
    for step_s in (0.01, 0.3, 5.0):
        policy = goodput(0.01, looks_up=False)
        k = policy.choose_limit(1, 1)
        observe(policy, k, drafted=k, evidence=MODEL_EVIDENCE, draft_s=k * step_s, rest_s=1.0)
        lengths.append(policy.choose_limit(1, 1))
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > lengths[1]
    assert lengths[2] == 0


def test_goodput_draws_only_for_rows_that_expect_more_from_the_model_than_from_their_lookup() -> None:
    policy = goodput(0.01)
    assert policy.choose_limit(3, 3) == MAX_DRAFT_LENGTH
    looked_up = Proposal([[1] * 12, [], [2]], [matches(6, 12), (), matches(1, 1)])
    policy.choose_model_lengths(looked_up, [32] * 3, [1] * 3)
    observe(policy, 2, drafted=4, evidence=MODEL_EVIDENCE, draft_s=4 * 0.01, rest_s=1.0)
    long_match, nothing, short_match = policy.choose_model_lengths(looked_up, [32, 32, 2], [1] * 3)
    assert long_match == 0
    assert nothing > 0
    assert short_match == 2, "a row near its end draws no further than that"


def test_goodput_draws_nothing_where_a_step_costs_more_than_it_gives_and_tries_again_now_and_then() -> None:
    policy = goodput(0.01)
    nothing = Proposal([[]], [()])
    policy.choose_model_lengths(nothing, [32], [1])
    observe(policy, 0, drafted=4, evidence=MODEL_EVIDENCE, draft_s=4 * 5.0, rest_s=1.0)
    drawn = [policy.choose_model_lengths(nothing, [32], [1])[0] for _ in range(24)]
    assert drawn.count(0) == 22
    assert drawn.count(1) == 2


def test_a_row_that_many_samples_share_counts_for_each_of_them() -> None:
    """Steps are dear: they pay for eight samples in a row without a match, and not for one beside a good lookup."""
    policy = goodput(0.01)
    policy.choose_model_lengths(Proposal([[], []], [(), ()]), [32] * 2, [1] * 2)
    observe(policy, 3, 3, drafted=4, evidence=MODEL_EVIDENCE, draft_s=4 * 0.4, rest_s=1.0)
    looked_up = Proposal([[], [1] * 12], [(), matches(6, 12)])
    assert (
        policy.choose_model_lengths(looked_up, [32] * 2, [8, 1])[0]
        > policy.choose_model_lengths(looked_up, [32] * 2, [1, 8])[0]
    )


def test_a_fixed_length_is_drawn_where_no_long_match_was_found() -> None:
    looked_up = Proposal([[1] * 4, [1] * 4, []], [matches(LONG_MATCH, 4), matches(LONG_MATCH - 1, 4), ()])
    assert FixedLength(4).choose_model_lengths(looked_up, [4, 4, 3], [1] * 3) == [0, 4, 3]


def test_a_cut_proposal_keeps_what_each_token_was_drawn_from() -> None:
    # Row r, step i is drawn from ids (10 r + i, 99) with probability (r + i + 1) / 8 for the first.
    R, k = 2, 3
    first = torch.tensor([[(r + i + 1) / 8 for i in range(k)] for r in range(R)]).flatten()
    ids = torch.tensor([[10 * r + i, 99] for r in range(R) for i in range(k)])
    whole = Proposal(
        [[ON_DEVICE] * 3, [10, 11]], [MODEL_EVIDENCE] * 2, Distribution(ids, torch.stack([first, 1 - first], 1).log())
    )
    for lengths, kept in (([2, 1], 2), ([3, 0], 3), ([0, 1], 1), ([0, 0], 0)):
        cut = whole.truncate(lengths)
        assert [len(tokens) for tokens in cut.tokens] == lengths
        assert cut.q is not None
        assert cut.q.ids[:, 0].tolist() == [10 * r + i for r in range(R) for i in range(kept)]
        expected = [(r + i + 1) / 8 for r in range(R) for i in range(kept)]
        assert cut.q.logp.exp()[:, 0].tolist() == pytest.approx(expected)
