"""Draft tokens are verified while they pay, judged by measured cost and by their evidence's record."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoding.costs import RoundCost, VerifyCost, measure_verify_cost
from decoding.draft_length.goodput import AcceptanceModel, choose_model_length, choose_row_lengths
from decoding.state.proposal import MODEL_EVIDENCE, Evidence, Match, Proposal


def rounds_of(sizes: tuple[int, ...], seconds: tuple[float, ...]) -> RoundCost:
    """Rounds that take what their verify was measured to take."""
    return RoundCost(VerifyCost(sizes, seconds))


FREE = rounds_of((1, 1000), (1.0, 1.0))
DEAR = rounds_of((1, 1000), (1.0, 1000.0))


def matches(length: int, n: int) -> Evidence:
    """The evidence for n tokens that continue a match."""
    return [Match(length + i, 1.0) for i in range(n)]


def record(chances: dict[int, float]) -> AcceptanceModel:
    """What 400 tokens teach after matches of each length."""
    model = AcceptanceModel()
    for trial in range(400):
        for length, chance in chances.items():
            model.observe(matches(length, 1), 1, int(trial * 37 % 100 < 100 * chance))
    return model


def proposal(*drafts: tuple[int, int]) -> Proposal:
    """Rows of (length of the draft, length of the match)."""
    return Proposal([[7] * n for n, _ in drafts], [matches(match, n) for n, match in drafts])


def test_all_is_verified_where_verifying_is_free() -> None:
    sure = record({3: 1.0, 1: 1.0})
    assert choose_row_lengths(proposal((9, 3), (4, 1), (0, 0)), [1, 1, 1], sure, FREE) == [9, 4, 0]


def test_of_plans_as_good_the_shortest_is_taken() -> None:
    acceptance = AcceptanceModel()
    for _ in range(400):
        acceptance.observe(MODEL_EVIDENCE, 2, 1)  # the first is accepted, the second rejected
    assert choose_row_lengths(Proposal([[7, 7]], [MODEL_EVIDENCE]), [1], acceptance, FREE) == [1]


def test_nothing_is_verified_where_each_token_costs_as_much_as_a_round() -> None:
    assert choose_row_lengths(proposal((9, 3), (4, 1)), [1, 1], record({3: 0.5, 1: 0.5}), DEAR) == [0, 0]


def test_better_evidence_gets_more_tokens() -> None:
    some = rounds_of((1, 2, 100), (1.0, 1.05, 30.0))
    lengths = choose_row_lengths(proposal((8, 5), (8, 1)), [1, 1], record({5: 0.98, 1: 0.2}), some)
    assert lengths[0] > lengths[1]


def test_a_row_of_many_samples_gets_more_tokens() -> None:
    some = rounds_of((1, 100), (1.0, 40.0))
    lengths = choose_row_lengths(proposal((8, 2), (8, 2)), [7, 1], record({2: 0.7}), some)
    assert lengths[0] > lengths[1]


@given(
    drafts=st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6)), min_size=1, max_size=8),
    slope=st.floats(0.0, 1.0),
)
def test_a_plan_never_exceeds_the_proposal_and_never_expects_less_than_plain(
    drafts: list[tuple[int, int]], slope: float
) -> None:
    cost = rounds_of((1, 200), (1.0, 1.0 + 199 * slope))
    acceptance = AcceptanceModel()
    lengths = choose_row_lengths(proposal(*drafts), [1] * len(drafts), acceptance, cost)
    assert all(n <= offered for n, (offered, _) in zip(lengths, drafts, strict=True))
    expected = float(len(drafts))
    for n, (_, match) in zip(lengths, drafts, strict=True):
        survival = 1.0
        for depth in range(n):
            survival *= acceptance.estimate_acceptance(matches(match, n), depth)
            expected += survival
    plain = len(drafts) / cost(len(drafts), len(drafts), 1)
    assert expected / cost(len(drafts), len(drafts) + sum(lengths), 1 + max(lengths)) >= plain * (1 - 1e-9)


def test_one_long_draft_is_not_verified_where_it_makes_all_rows_pay() -> None:
    drafts = proposal((8, 3), *[(0, 0)] * 7)
    padded = rounds_of((1, 100), (1.0, 1.5))
    assert choose_row_lengths(drafts, [1] * 8, record({3: 0.9}), padded)[0] == 8
    for n_rows in (1, 4, 8) * 20:
        for longest in (1, 4, 8):
            padded.observe(n_rows, n_rows, longest, padded.verify(n_rows) + 0.05 * n_rows * longest)
    assert choose_row_lengths(drafts, [1] * 8, record({3: 0.9}), padded)[0] <= 4


def test_hopeless_drafts_are_tried_again_now_and_then() -> None:
    acceptance = record({1: 0.0})
    plans = [choose_row_lengths(proposal((4, 1)), [1], acceptance, DEAR) for _ in range(30)]
    assert plans.count([1]) == 2
    assert plans.count([0]) == 28


def confident(*rows: tuple[float, ...]) -> Proposal:
    """Rows of a head's draft, with what it says of each token."""
    return Proposal([[7] * len(row) for row in rows], [MODEL_EVIDENCE] * len(rows), confidence=rows)


def test_a_row_whose_head_is_sure_gets_more_tokens_than_one_whose_head_is_not() -> None:
    some = rounds_of((1, 2, 100), (1.0, 1.05, 30.0))
    draft = confident((0.95,) * 5, (0.95, 0.1, 0.1, 0.1, 0.1))
    first, second = choose_row_lengths(draft, [1, 1], AcceptanceModel(), some)
    assert first > second >= 1


def test_what_happens_corrects_what_a_head_says_of_itself() -> None:
    acceptance = AcceptanceModel()
    draft = confident((0.95, 0.95))
    assert acceptance.estimate_token_acceptance(draft, 0, 0) == 0.95
    for _ in range(300):
        acceptance.observe(MODEL_EVIDENCE, 2, 0, draft.confidence[0] if draft.confidence else ())
    assert acceptance.estimate_token_acceptance(draft, 0, 1) < 0.1
    assert acceptance.estimate_token_acceptance(confident((0.35,)), 0, 0) == 0.35, "another class"


@pytest.mark.parametrize(("seconds", "length"), [(0.01, 5), (5.0, 0)])
def test_a_head_proposes_its_whole_block_in_one_step_or_nothing(seconds: float, length: int) -> None:
    acceptance = AcceptanceModel(tokens_per_step=5)
    rising = rounds_of((1, 64), (1.0, 1 + 63 * 0.6))  # two tokens would be the best length for all rows
    rising.observe_draft(1, seconds)
    assert choose_model_length([0.0], [1], acceptance, rising) == length


def test_a_cost_between_sizes_is_interpolated_and_beyond_extrapolated() -> None:
    cost = VerifyCost((1, 8, 16), (1.0, 1.7, 3.3))
    assert [cost(n) for n in (1, 8, 12, 16, 24)] == pytest.approx([1.0, 1.7, 2.5, 3.3, 4.9])


def test_measured_costs_never_fall_with_size() -> None:
    def verify(n_tokens: int) -> None:
        sum(range(20_000 - 200 * n_tokens))

    cost = measure_verify_cost(verify)
    assert list(cost.seconds) == sorted(cost.seconds)


def test_a_token_counts_only_if_those_before_it_were_accepted() -> None:
    acceptance = AcceptanceModel()
    for _ in range(300):
        acceptance.observe(MODEL_EVIDENCE, 5, 1)  # the first is accepted, the second rejected, the others not compared
    assert acceptance.estimate_acceptance(MODEL_EVIDENCE, 0) > 0.97
    assert acceptance.estimate_acceptance(MODEL_EVIDENCE, 1) < 0.03
    assert acceptance.estimate_acceptance(MODEL_EVIDENCE, 2) == AcceptanceModel().estimate_acceptance(MODEL_EVIDENCE, 2)


def test_longer_and_clearer_matches_are_better_before_and_after_learning() -> None:
    for acceptance in (AcceptanceModel(), record({1: 0.3, 4: 0.7, 16: 0.98})):
        by_length = [acceptance.estimate_acceptance([Match(n, 1.0)], 0) for n in (1, 2, 4, 8, 16)]
        by_share = [acceptance.estimate_acceptance([Match(4, share)], 0) for share in (0.2, 0.5, 0.9, 1.0)]
        assert by_length == sorted(by_length)
        assert by_share == sorted(by_share)
        assert 0 < by_length[0] < by_length[-1] < 1


def test_another_kind_of_text_changes_what_matches_are_worth() -> None:
    poor, good = record({1: 0.05, 4: 0.3, 16: 0.6}), record({1: 0.6, 4: 0.9, 16: 1.0})
    for length, low, high in ((1, 0.05, 0.6), (4, 0.3, 0.9), (16, 0.6, 1.0)):
        assert poor.estimate_acceptance(matches(length, 1), 0) == pytest.approx(low, abs=0.15)
        assert good.estimate_acceptance(matches(length, 1), 0) == pytest.approx(high, abs=0.15)
