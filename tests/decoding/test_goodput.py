"""Draft tokens are verified while they pay, judged by measured cost and by their evidence's record."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoding.costs.rounds import RoundCost
from decoding.costs.verify import VerifyCost, measure
from decoding.draft_length.goodput import AcceptanceModel, best_length, worth_verifying
from decoding.state.proposal import MODEL_EVIDENCE, Proposal


def rounds_of(sizes: tuple[int, ...], seconds: tuple[float, ...]) -> RoundCost:
    """Rounds that take what their verify was measured to take."""
    return RoundCost(VerifyCost(sizes, seconds))


FREE = rounds_of((1, 1000), (1.0, 1.0))
DEAR = rounds_of((1, 1000), (1.0, 1000.0))


def record(chances: dict[int, float]) -> AcceptanceModel:
    model = AcceptanceModel()
    for evidence, chance in chances.items():
        for trial in range(400):
            model.observe(evidence, 1, int(trial % 100 < 100 * chance))
    return model


def proposal(*drafts: tuple[int, int]) -> Proposal:
    """Rows of (length, evidence)."""
    return Proposal([[7] * n for n, _ in drafts], [evidence for _, evidence in drafts])


def test_all_is_verified_where_verifying_is_free() -> None:
    sure = record({3: 1.0, 1: 1.0})
    assert worth_verifying(proposal((9, 3), (4, 1), (0, 0)), [1, 1, 1], sure, FREE) == [9, 4, 0]


def test_of_plans_as_good_the_shortest_is_taken() -> None:
    acceptance = AcceptanceModel()
    for _ in range(400):
        acceptance.observe(3, 2, 1)  # the first is accepted, the second rejected
    assert worth_verifying(proposal((2, 3)), [1], acceptance, FREE) == [1]


def test_nothing_is_verified_where_each_token_costs_as_much_as_a_round() -> None:
    assert worth_verifying(proposal((9, 3), (4, 1)), [1, 1], record({3: 0.5, 1: 0.5}), DEAR) == [0, 0]


def test_better_evidence_gets_more_tokens() -> None:
    some = rounds_of((1, 2, 100), (1.0, 1.05, 30.0))
    lengths = worth_verifying(proposal((8, 5), (8, 1)), [1, 1], record({5: 0.98, 1: 0.2}), some)
    assert lengths[0] > lengths[1]


def test_a_row_of_many_samples_gets_more_tokens() -> None:
    some = rounds_of((1, 100), (1.0, 40.0))
    lengths = worth_verifying(proposal((8, 2), (8, 2)), [7, 1], record({2: 0.7}), some)
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
    lengths = worth_verifying(proposal(*drafts), [1] * len(drafts), acceptance, cost)
    assert all(n <= offered for n, (offered, _) in zip(lengths, drafts, strict=True))
    expected = float(len(drafts))
    for n, (_, evidence) in zip(lengths, drafts, strict=True):
        survival = 1.0
        for depth in range(n):
            survival *= acceptance.probability(evidence, depth)
            expected += survival
    plain = len(drafts) / cost(len(drafts), len(drafts), 1)
    assert expected / cost(len(drafts), len(drafts) + sum(lengths), 1 + max(lengths)) >= plain * (1 - 1e-9)


def test_one_long_draft_is_not_verified_where_it_makes_all_rows_pay() -> None:
    drafts = proposal((8, 3), *[(0, 0)] * 7)
    padded = rounds_of((1, 100), (1.0, 1.5))
    assert worth_verifying(drafts, [1] * 8, record({3: 0.9}), padded)[0] == 8
    for n_rows in (1, 4, 8) * 20:
        for longest in (1, 4, 8):
            padded.observe(n_rows, n_rows, longest, padded.verify(n_rows) + 0.05 * n_rows * longest)
    assert worth_verifying(drafts, [1] * 8, record({3: 0.9}), padded)[0] <= 2


def test_hopeless_drafts_are_tried_again_now_and_then() -> None:
    acceptance = record({1: 0.0})
    plans = [worth_verifying(proposal((4, 1)), [1], acceptance, DEAR) for _ in range(30)]
    assert plans.count([1]) == 2
    assert plans.count([0]) == 28


@pytest.mark.parametrize(("step", "longer"), [(0.01, True), (0.9, False)])
def test_a_draft_model_drafts_less_the_more_it_costs(step: float, longer: bool) -> None:
    acceptance = record({MODEL_EVIDENCE: 0.8})
    cost = rounds_of((1, 64), (1.0, 1.2))
    cost.observe_draft(1, step)
    k = best_length([0.0], [1], acceptance, cost)
    assert (k >= 4) is longer


def test_a_cost_between_sizes_is_interpolated_and_beyond_extrapolated() -> None:
    cost = VerifyCost((1, 8, 16), (1.0, 1.7, 3.3))
    assert [cost(n) for n in (1, 8, 12, 16, 24)] == pytest.approx([1.0, 1.7, 2.5, 3.3, 4.9])


def test_measured_costs_never_fall_with_size() -> None:
    def verify(n_tokens: int) -> None:
        sum(range(20_000 - 200 * n_tokens))

    cost = measure(verify)
    assert list(cost.seconds) == sorted(cost.seconds)


def test_a_token_counts_only_if_those_before_it_were_accepted() -> None:
    acceptance = AcceptanceModel()
    for _ in range(300):
        acceptance.observe(2, 5, 1)  # the first is accepted, the second rejected, the others never compared
    assert acceptance.probability(2, 0) > 0.97
    assert acceptance.probability(2, 1) < 0.03
    assert acceptance.probability(2, 2) == AcceptanceModel().probability(2, 2)
