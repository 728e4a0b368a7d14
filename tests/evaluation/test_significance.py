"""Tests of two runs are paired and exact."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evaluation import significance
from evaluation.metrics import MetricError


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
