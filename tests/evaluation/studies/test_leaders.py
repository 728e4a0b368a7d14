"""Which arm leads, and what is decided about pairs."""

from __future__ import annotations

from evaluation.studies.arms import score
from evaluation.studies.leaders import PairBands, leader
from tests.evaluation.studies.making import arm, passing


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
    bands = PairBands(score(arms, [2.0]), "first")
    assert [bands.decide(0, other, 2.0).verdict for other in (1, 2)] == ["undecided", "better"]
    assert not bands.leads_clearly(0, 2.0)
    assert PairBands(score([arms[0], arms[2]], [2.0]), "first").leads_clearly(0, 2.0)


def test_a_pair_is_the_same_read_from_both_sides() -> None:
    bands = PairBands(score([passing("a", 60, 100), passing("b", 20, 100)], [2.0]), "first")
    there, back = bands.decide(0, 1, 2.0), bands.decide(1, 0, 2.0)
    assert (back.low, back.high, back.difference) == (-there.high, -there.low, -there.difference)
    assert (there.a_is_better, back.b_is_better, back.verdict) == (True, True, "better")
