"""Arms compare over the tasks that all of them have, whatever else one of them has done."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evaluation.metrics import MetricError
from evaluation.outcomes import compute_pass_all, compute_pass_first
from tests.evaluation.studies.making import arm, passing, score


def test_each_row_is_the_same_task_for_all_arms_in_the_order_of_the_first() -> None:
    a = arm("a", [[(1.0, True)], [(1.0, False)], [(1.0, True)]])
    b = arm("b", [[(1.0, False)], [(1.0, True)]], start=1)
    backwards = arm("c", [[(1.0, True)], [(1.0, False)], [(1.0, True)]])
    backwards = replace(backwards, outcomes=backwards.outcomes[::-1])
    compared = score([a, b, backwards], 2.0)
    assert compared.task_ids == ("T/1", "T/2")
    assert compared.outcomes.find_solved("first", 2.0).tolist() == [[False, True], [False, True], [False, True]]


def test_the_shares_are_those_of_the_metrics() -> None:
    rng = np.random.default_rng(0)
    one = arm("a", [[(float(rng.uniform(0, 4)), bool(rng.random() < 0.4)) for _ in range(5)] for _ in range(20)])
    compared = score([one, passing("b", 3, 20)], 4.0)
    for budget in (1.0, 2.0, 4.0):
        assert compared.compute_share("first", 0, budget) == compute_pass_first(one.outcomes, budget)
        assert compared.compute_share("all", 0, budget) == compute_pass_all(one.outcomes, budget)


def test_some_of_the_arms_over_the_first_tasks_are_what_they_are_alone() -> None:
    rng = np.random.default_rng(1)
    arms = [
        arm(name, [[(float(rng.uniform(0, 4)), bool(rng.random() < 0.5)) for _ in range(3)] for _ in range(12)])
        for name in "abc"
    ]
    some = score(arms, 4.0).select([2, 0], 3.0, 5)
    alone = score([replace(one, outcomes=one.outcomes[:15]) for one in (arms[2], arms[0])], 3.0)
    assert [one.name for one in some.arms] == ["c", "a"]
    assert some.curves == alone.curves
    assert some.decide("all", 0, 1, 2.0) == alone.decide("all", 0, 1, 2.0)


def test_without_arms_or_common_tasks_there_is_nothing_to_measure() -> None:
    for arms in ([], [passing("a", 1, 2), passing("b", 1, 2, start=2)]):
        with pytest.raises(MetricError, match="no runs or no tasks"):
            score(arms, 1.0)


def test_of_equals_the_one_with_the_higher_pass_all_leads_then_the_cheapest() -> None:
    chosen_alone = arm("a", [[(1.0, True), (1.0, False)], [(1.0, False), (1.0, False)]], cost_s=1.0)
    another_too = arm("b", [[(1.0, True), (1.0, False)], [(1.0, False), (1.0, True)]], cost_s=9.0)
    assert score([chosen_alone, another_too], 1.0).find_leader("first", 1.0) == 1
    dear, cheap = passing("dear", 3, 9, cost_s=4.0), passing("cheap", 3, 9, cost_s=2.0)
    assert score([dear, cheap], 1.0).find_leader("first", 1.0) == 1
    nobody = score([passing("a", 0, 9), passing("b", 0, 9)], 1.0)
    assert nobody.find_leader("first", 1.0) is nobody.find_leader("all", 1.0) is None


def test_a_clear_loser_is_told_from_the_leader_and_a_close_one_is_not() -> None:
    arms = [passing("best", 60, 100), passing("close", 57, 100, cost_s=2.0), passing("far", 20, 100)]
    compared = score(arms, 2.0)
    assert [compared.decide("first", 0, other, 2.0).verdict for other in (1, 2)] == ["undecided", "better"]


def test_a_pair_is_the_same_read_from_both_sides() -> None:
    compared = score([passing("a", 60, 100), passing("b", 20, 100)], 2.0)
    there, back = compared.decide("first", 0, 1, 2.0), compared.decide("first", 1, 0, 2.0)
    assert (back.low, back.high, back.difference) == (-there.high, -there.low, -there.difference)
    assert compared.build_band("first", 1, 0).decide(2.0) == back
    assert (there.is_better, back.is_worse, back.verdict) == (True, True, "better")
