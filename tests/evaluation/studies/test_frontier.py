"""The frontier follows the best arm, and says where it cannot be told from another."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evaluation.studies.arms import score
from evaluation.studies.frontier import Change, frontier
from evaluation.studies.leaders import PairBands
from tests.evaluation.studies.making import arm, passing

SAMPLE = st.tuples(st.one_of(st.none(), st.floats(0.1, 8.0)), st.booleans())
TASKS = st.lists(st.lists(SAMPLE, min_size=2, max_size=2), min_size=3, max_size=3)


def test_the_frontier_changes_hands_with_the_leader() -> None:
    arms = [passing("a", 30, 100, 0.9), passing("b", 60, 100, 3.9)]
    found = frontier(PairBands(score(arms, [0.5, 1.0, 2.0, 4.0, 8.0]), "first"))
    assert found.arms == (None, "a", "a", "b", "b")
    assert found.values == (0.0, 0.3, 0.3, 0.6, 0.6)
    assert found.too_close == (False, True, False, True, False), "a step in which the lead changes is undecided"
    assert found.changes == (Change(1.0, None, "a"), Change(4.0, "a", "b"))


def test_a_runner_up_that_cannot_be_told_apart_is_too_close() -> None:
    found = frontier(PairBands(score([passing("a", 30, 100), passing("b", 29, 100)], [1.0]), "first"))
    assert (found.arms, found.too_close) == (("a",), (True,))


def test_pass_all_has_its_own_frontier() -> None:
    chooses_well = arm("first", [[(1.0, True), (1.0, False)]] * 3 + [[(1.0, False)] * 2] * 6)
    has_one = arm("all", [[(1.0, False), (1.0, True)]] * 9)
    scored = score([chooses_well, has_one], [1.0])
    assert (frontier(PairBands(scored, "first")).arms, frontier(PairBands(scored, "all")).arms) == (
        ("first",),
        ("all",),
    )


@given(st.lists(TASKS, min_size=1, max_size=4))
def test_the_frontier_is_the_upper_envelope(arms: list) -> None:
    scored = score([arm(str(i), tasks) for i, tasks in enumerate(arms)], [0.5, 1.0, 2.0, 4.0, 8.0])
    for figure in ("first", "all"):
        found = frontier(PairBands(scored, figure))
        solved = scored.first if figure == "first" else scored.all
        assert list(found.values) == solved.mean(axis=1).max(axis=0).tolist()
        assert [name is None for name in found.arms] == [value == 0 for value in found.values]
        if figure == "all":
            assert list(found.values) == sorted(found.values)
