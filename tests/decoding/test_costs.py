"""One object knows what all work takes, learnt from rounds beyond what was measured of a verify alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count

import pytest

from decoding.attention.target_runner import TargetRunner
from decoding.costs import Costs, RoundCost, VerifyCost
from decoding.draft_length.profiles import BatchFit, Profile
from decoding.engine import Engine
from decoding.request import Completion, Request
from tests.thorough import quick_first


def test_a_prompt_costs_what_all_models_take_and_more_where_it_is_scored() -> None:
    costs = Costs(2)
    target, head = costs.prompts
    target.token.observe(1.0)
    target.scored_token.observe(3.0)
    head.token.observe(0.5)
    costs.restart()
    assert costs.get_known_prompt_s(10) == pytest.approx(15)
    assert costs.get_known_prompt_s(10, scored=True) == pytest.approx(35)
    assert costs.get_known_drafter_s(10) == pytest.approx(5)


def test_a_round_that_reads_prompts_takes_longer_by_the_target_s_part() -> None:
    costs = Costs(2)
    costs.next_round.observe(1.0)
    costs.prompts[0].token.observe(0.1)
    costs.prompts[1].token.observe(100.0)
    assert costs.get_expected_round_s(20) == pytest.approx(1.15 * 3)
    assert costs.get_known_round_s(20) == pytest.approx(1.15 * 3)


def test_verifies_are_measured_once_until_rounds_are_computed_in_another_way() -> None:
    measured = count()
    costs = Costs(1, lambda: VerifyCost((1,), (float(next(measured)),)))
    assert costs.round_cost is costs.round_cost
    assert costs.round_cost.verify(1) == 0
    costs.forget_rounds()
    assert costs.round_cost.verify(1) == 1


@pytest.mark.parametrize("length", ["goodput", "fixed:3", "bass"])
@pytest.mark.parametrize("drafter", ["./draft", "trained"])
def test_rounds_report_what_they_take_whatever_chooses_their_draft_length(
    drafter: str, length: str, engine: Callable[..., Engine]
) -> None:
    made = engine(drafter=drafter, draft_length=length)
    before = made.costs.round_cost(1, 1, 1)
    made.generate(Request("def add(a, b):", max_new_tokens=24))
    assert made.costs.round_cost.draft_step_s
    assert made.costs.round_cost(1, 1, 1) != before


VERIFY = VerifyCost((1, 64), (0.030, 0.093))


def test_before_any_round_it_is_the_verify() -> None:
    assert RoundCost(VERIFY)(4, 16, 9) == VERIFY(16)


def test_prices_of_rows_and_of_padding_are_found() -> None:
    cost, chance = RoundCost(VERIFY), random.Random(0)
    for _ in range(300):
        rows, longest = chance.randint(1, 16), chance.randint(1, 12)
        tokens = chance.randint(rows, rows * longest)
        seconds = VERIFY(tokens) + 0.002 + 0.0005 * rows + 0.0002 * rows * longest
        cost.observe(rows, tokens, longest, seconds * chance.uniform(0.97, 1.03))
    even, uneven = cost(8, 16, 2), cost(8, 16, 9)
    assert uneven - even == pytest.approx(8 * 7 * 0.0002, rel=0.2)
    assert even == pytest.approx(VERIFY(16) + 0.002 + 0.004 + 0.0032, rel=0.05)


def test_more_places_are_never_thought_to_save_time() -> None:
    cost = RoundCost(VERIFY)
    for longest in (1, 8) * 20:
        cost.observe(4, 8, longest, 0.05 / longest)
    assert cost(4, 8, 8) >= cost(4, 8, 1)


def test_one_interrupted_round_does_not_stop_drafting() -> None:
    cost = RoundCost(VERIFY)
    for longest in (1, 2, 4, 8) * 10:
        cost.observe(8, 16, longest, VERIFY(16))
    cost.observe(8, 16, 8, 60.0)
    assert cost(8, 16, 8) < 1.5 * VERIFY(16)


@pytest.mark.parametrize("rows", [1, 8])
def test_any_number_of_rounds_of_one_shape_can_be_observed(rows: int) -> None:
    cost = RoundCost(VERIFY)
    for _ in range(20_000):
        cost.observe(rows, rows, 1, VERIFY(rows) + 0.003)
    assert cost(rows, rows, 1) == pytest.approx(VERIFY(rows) + 0.003, rel=0.01)


@pytest.mark.parametrize("length", quick_first(["goodput", "fixed:3", "bass", "table"], ["goodput", "table"]))
@pytest.mark.parametrize(
    "drafter",
    quick_first(["sibling", "./draft", "ngram+./draft", "trained", "sibling+trained"], ["ngram+./draft", "trained"]),
)
def test_a_warm_engine_measures_nothing_on_the_clock_of_a_request(
    drafter: str, length: str, engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "decoding.draft_length.profiles.find_profile",
        lambda _key: Profile({}, 1.0, 0.5, (BatchFit(1, 0.1, 0.01, 0.01, 2),), ()),
    )
    made = engine(drafter=drafter, draft_length=length)
    made.warm_up()
    assert all(prompt.token.known_s > 0 for prompt in made.costs.prompts)
    assert made.costs.prompts[0].scored_token.known_s > 0
    assert made.costs.next_round.known_s > 0
    assert drafter == "sibling" or made.costs.round_cost.draft_step_s

    def measured(*_: object) -> None:
        raise AssertionError("a verify was measured while a request was waiting")

    monkeypatch.setattr(TargetRunner, "verify_dummy", measured)
    request = Request("def add(a, b):", max_new_tokens=4)
    for outcomes in (made.serve([request]), made.generate_many([request])):
        ((_, outcome),) = outcomes
        assert isinstance(outcome, Completion)
