"""One object knows what all work takes, and whatever chooses the draft length reports to it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from decoding.costs import Costs, VerifyCost
from decoding.engine import Engine
from decoding.request import Request


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
