"""What a load test may claim: intervals over prompts that hold, three verdicts, and sentences that say no more."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evaluation.load_comparison import (
    LoadTestResult,
    PromptTally,
    RateResult,
    bound_capacity,
    compare_tallies,
    compare_with_idle,
    count_effective_requests,
    describe_capacity,
)
from evaluation.metrics import MetricError


def paired_interval(n_tasks: int, wins: int, losses: int) -> tuple[float, float]:
    """Agresti and Min's adjusted Wald interval of (wins - losses) / n_tasks."""
    n, up, down = n_tasks + 2.0, wins + 0.5, losses + 0.5
    delta = (up - down) / n
    half = float(stats.norm.ppf(0.975)) * math.sqrt((up + down) / n - delta**2) / math.sqrt(n)
    return max(-1.0, delta - half), min(1.0, delta + half)


def tallies(*pairs):
    return {str(i): PromptTally(*pair) for i, pair in enumerate(pairs)}


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_with_one_request_for_each_prompt_it_is_the_paired_interval_of_tasks(answers):
    found = compare_tallies(tallies(*((1, a) for a, _ in answers)), tallies(*((1, b) for _, b in answers)))
    wins, losses = (sum(pair == both for pair in answers) for both in ((True, False), (False, True)))
    assert (found.low, found.high) == pytest.approx(paired_interval(len(answers), wins, losses))
    assert found.delta == pytest.approx((wins - losses) / len(answers))


@pytest.mark.parametrize(("prompts", "asked", "change"), [(12, 3, -0.1), (24, 5, -0.3), (12, 1, 0.0)])
def test_the_interval_holds_the_true_difference_though_requests_of_a_prompt_are_alike(prompts, asked, change):
    dice = np.random.default_rng(1)
    hits, tests = 0, 600
    truth = 0.5 * change  # prompts are hard or easy: Beta(0.4, 0.4), with the mean 0.5
    for _ in range(tests):
        chance = dice.beta(0.4, 0.4, prompts)
        a = tallies(*((asked, int(dice.binomial(asked, p * (1 + change)))) for p in chance))
        b = tallies(*((1, int(dice.binomial(1, p))) for p in chance))
        found = compare_tallies(a, b)
        hits += found.low <= truth <= found.high
    assert hits / tests >= 0.93


def test_services_without_a_common_prompt_are_not_compared():
    with pytest.raises(MetricError, match="share no prompt"):
        compare_tallies({"a": PromptTally(1, 1)}, {"b": PromptTally(1, 1)})


def service(*rights, prompts=20, rates=(0.2, 0.5, 1.0), idle=10):
    """A service that solves so many of its prompts idle and at each rate, each asked for twice there."""
    tried = [
        RateResult(rate, right / prompts, [(2, 2)] * right + [(2, 0)] * (prompts - right))
        for rate, right in zip(rates, rights, strict=True)
    ]
    own = RateResult(0.0, idle / prompts, [(1, 1)] * idle + [(1, 0)] * (prompts - idle))
    return LoadTestResult(own, tried)


def test_what_is_shown_of_a_capacity_is_a_range_of_tried_rates():
    few, many = service(10, 10, 1), service(100, 100, 10, prompts=200, idle=100)
    shown = [bound_capacity(compare_with_idle(one.idle, one.tried)) for one in (few, many)]
    assert [(one.low, one.high) for one in shown] == [(None, 0.5), (0.5, 0.5)]
    said = describe_capacity(few)
    assert said.startswith("Best estimate: it carries 0.5 requests per second. Pass@First there is within 5 points")
    assert "no rate is shown to stay within 5 points and all rates above 0.5 are shown to lose more." in said
    assert "At 0.5 the difference is +0.0 points (95 %: −8.9 to +8.9; 20 prompts, 60 requests): undecided." in said
    assert "undecided" not in describe_capacity(many)


def test_a_service_without_right_answers_has_no_quality_to_lose():
    assert "load cannot lower its quality" in describe_capacity(service(0, 0, 0, idle=0))


def test_the_effective_number_of_requests_is_between_the_prompts_and_the_requests():
    assert count_effective_requests(tallies(*[(1, 1)] * 5, *[(1, 0)] * 5).values()) == 10
    assert count_effective_requests(tallies(*[(4, 4)] * 5, *[(4, 0)] * 5).values()) <= 10
    assert count_effective_requests(tallies(*[(4, 2)] * 10).values()) == 40
    assert count_effective_requests(tallies(*[(4, 4)] * 10).values()) == 10
