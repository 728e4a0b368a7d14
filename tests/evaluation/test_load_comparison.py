"""What a load test may claim: intervals over prompts that hold, three verdicts, and sentences that say no more."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evaluation.load_comparison import compare_tallies, describe_capacity, find_capacity
from evaluation.load_metrics import LoadPoint, LoadTestRequest, PromptTally, build_point


def paired_interval(n_tasks: int, wins: int, losses: int) -> tuple[float, float]:
    """Agresti and Min's adjusted Wald interval of (wins - losses) / n_tasks."""
    n, up, down = n_tasks + 2.0, wins + 0.5, losses + 0.5
    delta = (up - down) / n
    half = float(stats.norm.ppf(0.975)) * math.sqrt((up + down) / n - delta**2) / math.sqrt(n)
    return max(-1.0, delta - half), min(1.0, delta + half)


def tallies(*pairs):
    return [PromptTally(*pair) for pair in pairs]


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


def point(rate: float | None, pass_first: float, *by_prompt: tuple[int, int]) -> LoadPoint:
    """A service at a rate, with its tallies of prompts (default: one prompt without a right answer)."""
    made = build_point([LoadTestRequest("a", "refused")], rate, 5.0, 20.0, 20.0)
    prompts = tuple(tallies(*by_prompt)) if by_prompt else made.by_prompt
    return replace(made, pass_first=pass_first, by_prompt=prompts)


def service(*rights, prompts=20, rates=(0.2, 0.5, 1.0), idle=10):
    """(idle, tried): a service that solves so many of its prompts idle and at each rate, each asked for twice there."""
    tried = [
        point(rate, right / prompts, *[(2, 2)] * right, *[(2, 0)] * (prompts - right))
        for rate, right in zip(rates, rights, strict=True)
    ]
    return point(None, idle / prompts, *[(1, 1)] * idle, *[(1, 0)] * (prompts - idle)), tried


def test_what_is_shown_of_a_capacity_is_a_range_of_tried_rates():
    few, many = service(10, 10, 1), service(100, 100, 10, prompts=200, idle=100)
    shown = [find_capacity(*one) for one in (few, many)]
    assert [(one.low, one.high) for one in shown] == [(None, 0.5), (0.5, 0.5)]
    said = describe_capacity(*few)
    assert said.startswith("Best estimate: it carries 0.5 requests per second. Pass@First there is within 5 points")
    assert "no rate is shown to stay within 5 points and all rates above 0.5 are shown to lose more" in said
    assert "it carries at least 0.5 and all rates above 0.5 are shown to lose more" in describe_capacity(*many)


def test_a_service_without_right_answers_has_no_quality_to_lose():
    nothing = service(0, 0, 0, idle=0)
    assert "load cannot lower its quality" in describe_capacity(*nothing)
    assert find_capacity(*nothing).estimate is None


RATES = st.dictionaries(st.floats(0.01, 100), st.floats(0, 1), min_size=1)


@given(st.floats(0.01, 1), RATES)
def test_capacity_is_the_highest_rate_within_five_points_of_idle(idle, shares):
    found = find_capacity(point(None, idle), [point(rate, share) for rate, share in sorted(shares.items())])
    fits = {rate for rate, share in shares.items() if share >= idle - 0.05 - 1e-9}
    assert found.estimate == (max(fits) if fits else None)
