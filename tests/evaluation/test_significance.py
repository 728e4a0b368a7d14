"""Comparisons of two runs are paired, exact where they can be, and say what they could not have seen."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evaluation import significance
from evaluation.metrics import MetricError


def compare(wins: int, losses: int, both: int, neither: int) -> significance.Comparison:
    a = [True] * wins + [False] * losses + [True] * both + [False] * neither
    b = [False] * wins + [True] * losses + [True] * both + [False] * neither
    return significance.compare_solved([f"T/{i}" for i in range(len(a))], np.array(a), np.array(b), 2.0, None)


@given(st.integers(0, 80), st.integers(0, 80))
def test_mcnemar_is_the_binomial_test_of_the_tasks_that_differ(wins: int, losses: int) -> None:
    p = stats.binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    assert significance.compute_mcnemar_p(wins, losses) == pytest.approx(p)


@given(st.floats(1e-6, 0.99))
def test_the_least_number_of_differing_tasks_is_where_the_test_turns(alpha: float) -> None:
    least = significance.compute_least_discordant(alpha)
    assert significance.compute_mcnemar_p(0, least) < alpha
    assert significance.compute_mcnemar_p(0, least - 1) >= alpha or least == 1


def test_six_tasks_at_five_percent() -> None:
    assert significance.compute_least_discordant() == 6
    with pytest.raises(MetricError, match="alpha is 1: give a level"):
        significance.compute_least_discordant(1)


@pytest.mark.parametrize(
    ("wins", "losses", "p"),
    [(6, 0, 0.031), (5, 0, 0.0625), (9, 1, 0.021), (15, 5, 0.041), (21, 9, 0.043), (0, 0, 1.0), (4, 4, 1.0)],
)
def test_mcnemar_by_the_table(wins: int, losses: int, p: float) -> None:
    assert significance.compute_mcnemar_p(wins, losses) == pytest.approx(p, abs=5e-4)


@pytest.mark.parametrize(("discordant", "points"), [(0.05, 4.9), (0.10, 6.9), (0.20, 9.8)])
def test_the_detectable_difference_of_164_tasks_by_the_table(discordant: float, points: float) -> None:
    assert 100 * significance.compute_detectable_difference(164, discordant) == pytest.approx(points, abs=0.05)


def test_a_difference_of_the_detectable_size_is_found_four_times_in_five() -> None:
    rng = np.random.default_rng(1)
    n, discordant = 400, 0.2
    delta = significance.compute_detectable_difference(n, discordant)
    up, down = (discordant + delta) / 2, (discordant - delta) / 2
    drawn = rng.multinomial(n, [up, down, 1 - discordant], size=2000)
    p = functools.cache(significance.compute_mcnemar_p)
    found = np.mean([p(int(w), int(lost)) < 0.05 for w, lost, _ in drawn])
    assert 0.72 < found < 0.86  # the exact test is a little conservative


def test_detectable_assumes_that_one_task_may_differ_and_never_exceeds_everything() -> None:
    assert significance.compute_detectable_difference(164, 0.0) == pytest.approx(
        significance.compute_detectable_difference(164, 1 / 164)
    )
    assert significance.compute_detectable_difference(2, 1.0) == 1.0
    with pytest.raises(MetricError):
        significance.compute_detectable_difference(0, 0.1)


def test_a_comparison_counts_wins_losses_and_ties() -> None:
    comparison = compare(wins=9, losses=1, both=100, neither=54)
    assert comparison.n_tasks == 164
    assert (len(comparison.wins), len(comparison.losses), comparison.ties) == (9, 1, 154)
    assert comparison.wins[0] == "T/0"
    assert (comparison.a, comparison.b) == pytest.approx((109 / 164, 101 / 164))
    assert comparison.delta == pytest.approx(8 / 164)
    assert comparison.p == pytest.approx(0.0215, abs=1e-4)
    assert comparison.detectable == pytest.approx(significance.compute_detectable_difference(164, 10 / 164))


def test_swapping_the_runs_mirrors_the_comparison() -> None:
    there, back = compare(7, 3, 20, 10), compare(3, 7, 20, 10)
    assert (there.delta, there.wins) == (-back.delta, tuple(f"T/{i}" for i in range(7)))
    assert there.p == pytest.approx(back.p)


def test_identical_runs_differ_by_nothing() -> None:
    same = compare(0, 0, 80, 84)
    assert (same.delta, same.p, same.ties) == (0, 1.0, 164)
