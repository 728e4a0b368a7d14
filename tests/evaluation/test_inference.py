"""Comparisons of two runs are paired, exact where they can be, and say what they could not have seen."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar

from evaluation import inference
from evaluation.metrics import MetricError, SampleOutcome, solved


def run(passes: list[bool], finished_s: float = 1.0, start: int = 0) -> list[SampleOutcome]:
    return [SampleOutcome(f"T/{start + i}", 0, finished_s, -0.1, p, 5) for i, p in enumerate(passes)]


def pair(wins: int, losses: int, both: int, neither: int) -> tuple[list[SampleOutcome], list[SampleOutcome]]:
    a = [True] * wins + [False] * losses + [True] * both + [False] * neither
    b = [False] * wins + [True] * losses + [True] * both + [False] * neither
    return run(a), run(b)


@given(st.integers(0, 80), st.integers(0, 80))
def test_mcnemar_agrees_with_statsmodels(wins: int, losses: int) -> None:
    table = [[3, wins], [losses, 4]]
    assert inference.mcnemar(wins, losses) == pytest.approx(float(statsmodels_mcnemar(table, exact=True).pvalue))


@given(st.floats(1e-6, 0.99))
def test_the_least_number_of_differing_tasks_is_where_the_test_turns(alpha: float) -> None:
    least = inference.least_discordant(alpha)
    assert inference.mcnemar(0, least) < alpha
    assert inference.mcnemar(0, least - 1) >= alpha or least == 1


def test_six_tasks_at_five_percent() -> None:
    assert inference.least_discordant() == 6
    with pytest.raises(MetricError, match="alpha is 1: give a level"):
        inference.least_discordant(1)


@pytest.mark.parametrize(
    ("wins", "losses", "p"),
    [(6, 0, 0.031), (5, 0, 0.0625), (9, 1, 0.021), (15, 5, 0.041), (21, 9, 0.043), (0, 0, 1.0), (4, 4, 1.0)],
)
def test_mcnemar_by_the_table(wins: int, losses: int, p: float) -> None:
    assert inference.mcnemar(wins, losses) == pytest.approx(p, abs=5e-4)


@pytest.mark.parametrize(("discordant", "points"), [(0.05, 4.9), (0.10, 6.9), (0.20, 9.8)])
def test_the_detectable_difference_of_164_tasks_by_the_table(discordant: float, points: float) -> None:
    assert 100 * inference.detectable(164, discordant) == pytest.approx(points, abs=0.05)


def test_a_difference_of_the_detectable_size_is_found_four_times_in_five() -> None:
    rng = np.random.default_rng(1)
    n, discordant = 400, 0.2
    delta = inference.detectable(n, discordant)
    up, down = (discordant + delta) / 2, (discordant - delta) / 2
    drawn = rng.multinomial(n, [up, down, 1 - discordant], size=2000)
    p = functools.cache(inference.mcnemar)
    found = np.mean([p(int(w), int(lost)) < 0.05 for w, lost, _ in drawn])
    assert 0.72 < found < 0.86  # the exact test is a little conservative


def test_detectable_assumes_that_one_task_may_differ_and_never_exceeds_everything() -> None:
    assert inference.detectable(164, 0.0) == pytest.approx(inference.detectable(164, 1 / 164))
    assert inference.detectable(2, 1.0) == 1.0
    with pytest.raises(MetricError):
        inference.detectable(0, 0.1)


def test_a_comparison_counts_wins_losses_and_ties() -> None:
    comparison = inference.compare(*pair(wins=9, losses=1, both=100, neither=54), budget_s=2.0)
    assert comparison.n_tasks == 164
    assert (len(comparison.wins), len(comparison.losses), comparison.ties) == (9, 1, 154)
    assert comparison.wins[0] == "T/0"
    assert (comparison.a, comparison.b) == pytest.approx((109 / 164, 101 / 164))
    assert comparison.delta == pytest.approx(8 / 164)
    assert comparison.low < comparison.delta < comparison.high
    assert comparison.p == pytest.approx(0.0215, abs=1e-4)
    assert comparison.detectable == pytest.approx(inference.detectable(164, 10 / 164))


def test_swapping_the_runs_mirrors_the_comparison() -> None:
    a, b = pair(7, 3, 20, 10)
    there, back = inference.compare(a, b, 2.0), inference.compare(b, a, 2.0)
    assert (there.delta, there.low, there.high) == pytest.approx((-back.delta, -back.high, -back.low))
    assert there.p == pytest.approx(back.p)


def test_identical_runs_differ_by_nothing_with_an_interval_around_it() -> None:
    a, b = pair(0, 0, 80, 84)
    same = inference.compare(a, b, 2.0)
    assert (same.delta, same.p, same.ties) == (0, 1.0, 164)
    assert -0.03 < same.low < 0 < same.high < 0.03


def test_only_common_tasks_count_whatever_their_order() -> None:
    a, b = run([True, True, False]), run([False, True], start=1)[::-1]
    comparison = inference.compare(a, b, 2.0)
    assert comparison.n_tasks == 2
    assert (comparison.wins, comparison.losses) == (("T/1",), ("T/2",))
    with pytest.raises(MetricError, match="share no task"):
        inference.compare(run([True]), run([True], start=5), 2.0)


def test_pass_all_is_compared_without_a_selector() -> None:
    a = [SampleOutcome("T/0", 0, 1.0, -0.1, False, 5), SampleOutcome("T/0", 1, 1.0, -0.9, True, 5)]
    b = run([False])
    assert inference.compare(a, b, 2.0).delta == 0
    assert inference.compare(a, b, 2.0, selector=None).delta == 1


def test_the_paired_interval_covers_the_truth_nineteen_times_in_twenty() -> None:
    rng = np.random.default_rng(2)
    n, up, down = 164, 0.08, 0.04
    drawn = rng.multinomial(n, [up, down, 1 - up - down], size=2000)
    intervals = [inference.paired_interval(n, int(w), int(lost)) for w, lost, _ in drawn]
    assert 0.93 < np.mean([low <= up - down <= high for low, high in intervals]) < 0.975


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_the_paired_interval_stays_within_reason(case: tuple[int, int]) -> None:
    n, wins = case
    low, high = inference.paired_interval(n, wins, n - wins)
    assert -1 <= low < high <= 1


BUDGETS = (0.5, 1.0, 2.0, 4.0, 8.0)


def solved_by(passes: list[bool], finished_s: float) -> NDArray[np.bool_]:
    """Which tasks a run solves at each of the BUDGETS."""
    return solved(run(passes, finished_s), BUDGETS).first


def fast_and_good() -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """A is right on 8 of 10 tasks after 4 s, B on 3 of them after 1 s."""
    return solved_by([True] * 80 + [False] * 20, 4.0), solved_by([True] * 30 + [False] * 70, 1.0)


def test_the_band_follows_the_difference_and_is_wide_where_nothing_differs() -> None:
    a, b = fast_and_good()
    band = inference.difference_band(a, b, BUDGETS)
    assert band.delta == pytest.approx((0, -0.3, -0.3, 0.5, 0.5))
    assert all(low < delta < high for low, delta, high in zip(band.low, band.delta, band.high, strict=True))
    assert band.high[2] < 0 < band.low[3]
    assert band == inference.difference_band(a, b, BUDGETS)


def test_the_crossover_is_where_the_slower_better_run_takes_over() -> None:
    a, b = fast_and_good()
    crossing = inference.crossover(a, b, BUDGETS)
    assert (crossing.budget_s, crossing.low, crossing.high, crossing.share) == (4.0, 4.0, 4.0, 1.0)
    never = inference.crossover(b, a, BUDGETS)
    assert never.budget_s is None
    assert (never.high, never.share) == (math.inf, 0.0)


def test_a_run_that_is_never_behind_crosses_where_it_first_leads_not_at_a_tie_before() -> None:
    crossing = inference.crossover(solved_by([True] * 9, 1.5), solved_by([False] * 9, 1.5), BUDGETS)
    assert (crossing.budget_s, crossing.low, crossing.high) == (2.0, 2.0, 2.0)


def test_an_uncertain_crossover_says_so() -> None:
    a = solved_by([True] * 6 + [False] * 4, 4.0)
    b = solved_by([False] * 3 + [True] * 2 + [False] * 5, 1.0)
    crossing = inference.crossover(a, b, BUDGETS)
    assert crossing.budget_s == 4.0
    assert crossing.low < math.inf
    assert 0.5 < crossing.share < 1.0


def test_equal_runs_never_cross() -> None:
    same = solved_by([True] * 10 + [False] * 10, 1.0)
    assert inference.crossover(same, same, BUDGETS).budget_s is None
