"""Tests of two runs are paired and exact."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evaluation import significance


@given(st.integers(0, 80), st.integers(0, 80))
def test_mcnemar_is_the_binomial_test_of_the_tasks_that_differ(wins: int, losses: int) -> None:
    p = stats.binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    assert significance.compute_mcnemar_p(wins, losses) == pytest.approx(p)


def test_six_tasks_at_five_percent() -> None:
    least = significance.LEAST_DISCORDANT
    assert significance.compute_mcnemar_p(0, least) < significance.ALPHA <= significance.compute_mcnemar_p(0, least - 1)


@pytest.mark.parametrize(
    ("wins", "losses", "p"),
    [(6, 0, 0.031), (5, 0, 0.0625), (9, 1, 0.021), (15, 5, 0.041), (21, 9, 0.043), (0, 0, 1.0), (4, 4, 1.0)],
)
def test_mcnemar_by_the_table(wins: int, losses: int, p: float) -> None:
    assert significance.compute_mcnemar_p(wins, losses) == pytest.approx(p, abs=5e-4)
