"""The decision core: intervals that keep their width, bands over all budgets, verdicts that do not flicker."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize

from evaluation.decisions import (
    LEAST_TESTS,
    PairBand,
    PairDecision,
    compute_critical_value,
    compute_score_interval,
    count_effective_tests,
    count_tasks_to_decide,
    list_decision_steps,
)
from evaluation.metrics import MetricError
from evaluation.significance import compute_mcnemar_p
from tests.evaluation.studies.making import score
from tests.evaluation.studies.random_studies import BUDGET_S, draw_study

Bools = NDArray[np.bool_]


def solving(*tasks: int, of: int) -> Bools:
    """Which of `of` tasks are solved, at one budget."""
    return np.isin(np.arange(of), tasks)[:, None]


def decide(a: Bools, b: Bools, margin: float = 0.05) -> PairDecision:
    return PairBand([1.0], a, b, 10.0).decide(5.0, margin)


@pytest.mark.parametrize(("wins", "losses"), [(3, 1), (1, 3), (9, 2), (0, 4), (20, 18)])
def test_the_interval_inverts_the_score_test(wins: int, losses: int) -> None:
    """By another way: the likelihood under a difference is maximized by search, and the statistic set to z."""
    n, z = 44, 1.96

    def statistic(delta: float) -> float:
        def log_likelihood(lost: float) -> float:
            cells = ((wins, lost + delta), (losses, lost), (n - wins - losses, 1 - 2 * lost - delta))
            return sum(count * math.log(max(share, 1e-300)) for count, share in cells if count)

        limits = (max(0.0, -delta), (1 - delta) / 2)
        lost = optimize.minimize_scalar(lambda x: -log_likelihood(x), bounds=limits, method="bounded",
                                        options={"xatol": 1e-12}).x  # fmt: skip
        return (wins - losses - n * delta) / math.sqrt(n * (2 * lost + delta * (1 - delta)))

    estimate = (wins - losses) / n
    wanted = [
        optimize.brentq(lambda delta: statistic(delta) - z, -0.9, estimate),
        optimize.brentq(lambda delta: statistic(delta) + z, estimate, 0.9),
    ]
    low, high = compute_score_interval(n, np.array([wins]), np.array([losses]), z)
    assert [float(low[0]), float(high[0])] == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (5, 0), (0, 5), (30, 10), (44, 0)])
def test_the_interval_holds_the_difference_and_has_a_width(wins: int, losses: int) -> None:
    low, high = compute_score_interval(44, np.array([wins]), np.array([losses]), 2.24)
    assert -1 <= low[0] <= (wins - losses) / 44 <= high[0] <= 1
    assert high[0] - low[0] > 0.09


@pytest.mark.parametrize("n", range(1, 60))
def test_at_one_budget_the_interval_excludes_zero_where_the_exact_test_rejects(n: int) -> None:
    """Up to one task, which the discrete test cannot decide at exactly 5 %."""
    z = compute_critical_value(0.025, LEAST_TESTS)
    shown = [
        wins
        for wins in range(n + 1)
        if compute_score_interval(164, np.array([wins]), np.array([n - wins]), z)[0][0] > 0
    ]
    rejected = [wins for wins in range(n + 1) if wins > n - wins and compute_mcnemar_p(wins, n - wins) < 0.05]
    assert len(set(shown) ^ set(rejected)) <= 1
    assert n >= 6 or not shown


def test_ten_tasks_without_a_difference_are_undecided_and_many_are_as_good() -> None:
    same = [decide(solving(*range(n // 2), of=n), solving(*range(n // 2), of=n)) for n in (10, 40, 164)]
    assert [one.verdict for one in same] == ["undecided", "undecided", "as_good"]
    assert same[0].high > 0.2
    assert same[0].tasks_to_decide is not None


def test_a_lead_beyond_chance_is_better_and_its_interval_excludes_zero() -> None:
    found = decide(solving(*range(50), of=100), solving(*range(20), of=100))
    assert (found.verdict, found.is_better, found.difference) == ("better", True, pytest.approx(0.3))
    assert 0 < found.low < 0.3 < found.high
    assert found.reverse().is_worse


def test_more_configurations_to_choose_from_widen_the_interval() -> None:
    a, b = solving(*range(50), of=100), solving(*range(40), of=100)
    widths = [one.high - one.low for n in (2, 4, 32) if (one := PairBand([1.0], a, b, 10.0, n).decide(5.0))]
    assert widths == sorted(widths)
    assert len(set(widths)) == 3


def test_nothing_is_decided_past_what_was_measured() -> None:
    band = PairBand([1.0], solving(0, of=9), solving(1, of=9), 14.0)
    for budget in (14.1, 20.0, 1e9, 0.0, -1.0, math.nan):
        with pytest.raises(MetricError, match="measured to 14 s"):
            band.decide(budget)


def test_tasks_to_decide_are_more_than_there_are_and_grow_with_what_differs() -> None:
    assert count_tasks_to_decide(500, 0, 0.5, 2.24) == 501
    assert count_tasks_to_decide(164, 16, 0.05, 2.24) == math.ceil(17 / 166 * ((2.24 + 0.8416212) / 0.05) ** 2)
    assert count_tasks_to_decide(164, 160, 0.001, 2.24) is None
    assert decide(solving(*range(50), of=82), solving(*range(46), of=82)).tasks_to_decide == (
        decide(solving(*range(48), of=82), solving(*range(2, 48), 49, 50, of=82)).tasks_to_decide
    )


def test_steps_are_a_quarter_long_at_least_and_end_at_the_budget() -> None:
    for end_s in (0.05, 0.9, 1.0, 3.0, 10.0, 10.2, 14.0, 600.0):
        steps = list_decision_steps(end_s)
        assert (steps[0], steps[-1]) == (0.0, end_s)
        assert all(later / earlier >= 1.25 - 1e-9 for earlier, later in pairwise(steps[1:]))
    assert {1.0, 2.0, 5.0, 10.0} < set(list_decision_steps(14.0)), "budgets that people name end a step"


def test_equal_budgets_count_as_one_test_and_independent_ones_as_several() -> None:
    rng = np.random.default_rng(1)
    one = rng.integers(-1, 2, (200, 1)).astype(np.int8)
    assert count_effective_tests(np.repeat(one, 20, axis=1)) < 1.2
    many = rng.integers(-1, 2, (200, 20)).astype(np.int8)
    assert 14 < count_effective_tests(many) < 26
    assert count_effective_tests(np.zeros((200, 20), dtype=np.int8)) == 1.0


def test_a_budget_counts_as_a_test_where_enough_tasks_differ_to_decide() -> None:
    five = np.zeros((200, 20), dtype=np.int8)  # at each budget five other tasks differ
    for budget in range(20):
        five[5 * budget : 5 * budget + 5, budget] = 1
    assert count_effective_tests(five) == 1.0
    six = np.repeat(five, 2, axis=0)
    assert count_effective_tests(six) > 10


@pytest.mark.parametrize("seed", range(12))
def test_a_verdict_holds_for_a_quarter_of_the_budget(seed: int) -> None:
    """So no pair goes from one verdict to another and back between neighbouring budgets."""
    study = draw_study(seed, 164, 2)
    bands = score(study.arms, BUDGET_S)
    budgets = np.geomspace(0.1, BUDGET_S, 400).tolist()
    found = [bands.decide("first", 0, 1, budget) for budget in budgets]
    starts = [later.from_s for earlier, later in pairwise(found) if earlier.verdict != later.verdict]
    assert all(later / earlier >= 1.25 - 1e-9 for earlier, later in pairwise(starts))
    for one in found:
        assert one.from_s < one.budget_s <= one.to_s
        assert one.low <= one.difference <= one.high
        assert (one.verdict == "better") == (one.low > 0 or one.high < 0)
