"""The first page opens at the budget that tells the runs apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ui.opening import where_runs_differ_most
from evaluation.metrics import Curve

GRID = (0.5, 1.0, 2.0, 4.0, 8.0)
TASKS = 20


def curve(*passed: int) -> Curve:
    """A run that has passed so many of 20 tasks at each budget of GRID, as far as it was given time."""
    shares = tuple(k / TASKS for k in passed)
    return Curve(GRID[: len(passed)], shares, shares)


@pytest.mark.parametrize(
    ("curves", "budget"),
    [
        ([curve(0, 2, 9, 9, 9), curve(0, 0, 1, 8, 10)], 2.0),  # flat and equal at the longest
        ([curve(0, 6, 6, 9, 9), curve(0, 0, 6, 3, 9)], 1.0),  # equal spreads: the smaller budget
        ([curve(0, 2, 9, 12, 12)], 2.0),  # one run: half of what it reaches
        ([curve(0, 2, 9, 12, 12)] * 2, 2.0),  # equal runs
        ([curve(0, 0, 0, 0, 0)], 8.0),  # nothing passes
        ([curve(0, 3, 4), curve(0, 1, 2, 15, 20)], 1.0),  # past 2 s the first run was given no time
    ],
)
def test_it_opens_where_the_runs_differ_most(curves, budget):
    assert where_runs_differ_most(curves) == budget


@given(st.lists(st.lists(st.integers(0, TASKS), min_size=1, max_size=len(GRID)), min_size=1, max_size=6))
def test_no_other_budget_that_every_run_was_given_has_a_larger_spread(passed):
    curves = [curve(*counts) for counts in passed]
    opening = where_runs_differ_most(curves)
    common = GRID[: min(map(len, passed))]
    assert opening in common
    spread = {b: max(c.at(b)[0] for c in curves) - min(c.at(b)[0] for c in curves) for b in common}
    largest = max(spread.values())
    assert spread[opening] == pytest.approx(largest)
    if largest > 0:
        assert all(spread[b] < largest - 1e-9 for b in common if b < opening)


@given(st.permutations([curve(0, 2, 9, 9, 9), curve(0, 0, 1, 8, 10), curve(1, 1, 5, 7)]))
def test_the_order_of_the_runs_does_not_matter(curves):
    assert where_runs_differ_most(curves) == 2.0
