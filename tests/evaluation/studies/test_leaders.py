"""Which arm leads, and which others are not significantly different."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from evaluation.studies.arms import Scored, score
from evaluation.studies.leaders import ALPHA, equally_good, holm, leader
from tests.evaluation.studies.making import arm, coin, passing


@given(st.lists(st.floats(0.0, 0.2), max_size=6))
def test_holms_procedure_is_the_closed_test_of_bonferronis(p_values: list[float]) -> None:
    """It rejects what Bonferroni's test rejects in every subset that holds the hypothesis (Marcus et al., 1976)."""
    places = range(len(p_values))
    subsets = [subset for size in places for subset in combinations(places, size + 1)]
    tested = [(subset, min(p_values[i] for i in subset) <= ALPHA / len(subset)) for subset in subsets]
    assert holm(p_values) == [all(rejects for subset, rejects in tested if place in subset) for place in places]


@pytest.mark.parametrize("p_values", [[0.01], [0.02, 0.03, 0.2], [0.049, 0.001, 0.012, 0.013, 0.9]])
def test_holms_procedure_agrees_with_statsmodels(p_values: list[float]) -> None:
    assert holm(p_values) == multipletests(p_values, ALPHA, "holm")[0].tolist()


def test_the_arm_that_solves_the_most_leads() -> None:
    scored = score([passing("a", 3, 9), passing("b", 5, 9), passing("c", 4, 9)], [1.0])
    assert leader(scored, "first", 0) == 1
    assert leader(scored, "first", 0, among=(0, 2)) == 2


def test_of_equals_the_one_with_the_higher_pass_all_leads_then_the_cheapest() -> None:
    chosen_alone = arm("a", [[(1.0, True), (1.0, False)], [(1.0, False), (1.0, False)]], cost_s=1.0)
    another_too = arm("b", [[(1.0, True), (1.0, False)], [(1.0, False), (1.0, True)]], cost_s=9.0)
    assert leader(score([chosen_alone, another_too], [1.0]), "first", 0) == 1
    dear, cheap = passing("dear", 3, 9, cost_s=4.0), passing("cheap", 3, 9, cost_s=2.0)
    assert leader(score([dear, cheap], [1.0]), "first", 0) == 1


def test_nobody_leads_while_nothing_passes() -> None:
    scored = score([passing("a", 0, 9), passing("b", 0, 9)], [1.0])
    assert leader(scored, "first", 0) is None
    assert leader(scored, "all", 0) is None


def test_a_clear_loser_is_told_from_the_leader_and_a_close_one_is_not() -> None:
    arms = [passing("best", 60, 100), passing("close", 57, 100, cost_s=2.0), passing("far", 20, 100)]
    arms.append(passing("cheap", 58, 100, cost_s=0.5))
    assert equally_good(score(arms, [1.0]), "first", 0, 0) == (3, 1)


@pytest.mark.parametrize("equals", [2, 4, 8])
def test_the_best_arm_is_rarely_left_out(equals: int) -> None:
    """Of equally good arms a given one is neither named nor equally good in at most 5 % of the studies."""
    rng = np.random.default_rng(equals)
    left_out = 0
    studies = 150
    for _ in range(studies):
        arms = [arm(str(i), coin(rng, 60, 0.4)) for i in range(equals)]
        arms += [arm(f"worse {i}", coin(rng, 60, 0.05)) for i in range(2)]
        left_out += not _named(score(arms, [1.0]), 0)
    assert left_out / studies <= 0.05


def _named(scored: Scored, arm_place: int) -> bool:
    best = leader(scored, "first", 0)
    return best is not None and (arm_place == best or arm_place in equally_good(scored, "first", 0, best))
