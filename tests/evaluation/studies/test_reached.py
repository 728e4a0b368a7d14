"""The time that a share of the tasks takes is read off the exact curves of all arms."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evaluation.studies.arms import score
from evaluation.studies.reached import SHARES, Reached, reached
from tests.evaluation.studies.making import arm, passing

SAMPLE = st.tuples(st.one_of(st.none(), st.floats(0.1, 8.0)), st.booleans())
TASKS = st.lists(st.lists(SAMPLE, min_size=2, max_size=2), min_size=5, max_size=5)


def test_the_arm_that_is_first_there_is_named_and_a_share_nobody_reaches_has_none() -> None:
    scored = score([passing("early", 5, 10, 1.25), passing("late", 7, 10, 3.5)], [2.0, 4.0])
    assert reached(scored) == (
        Reached(0.2, 1.25, "early"),
        Reached(0.4, 1.25, "early"),
        Reached(0.6, 3.5, "late"),
        Reached(0.8, None, None),
    )


def test_of_two_arms_that_are_there_together_the_cheapest_is_named() -> None:
    scored = score([passing("dear", 5, 10, cost_s=2.0), passing("cheap", 5, 10, cost_s=1.0)], [2.0])
    assert reached(scored)[0].arm == "cheap"


@given(st.lists(TASKS, min_size=1, max_size=3))
def test_the_share_holds_at_the_budget_and_no_arm_has_it_before(arms: list) -> None:
    scored = score([arm(str(number), tasks) for number, tasks in enumerate(arms)], [8.0])
    curves = {one.name: scored.curve(number) for number, one in enumerate(scored.arms)}
    for found in reached(scored):
        assert found.share in SHARES
        if found.budget_s is None or found.arm is None:
            assert all(max(curve.pass_first) < found.share for curve in curves.values())
            continue
        assert curves[found.arm].at(found.budget_s)[0] >= found.share
        earlier = [b for curve in curves.values() for b in curve.budgets if b < found.budget_s]
        assert all(curve.at(b)[0] < found.share for curve in curves.values() for b in earlier)
