"""A page opens at 5 s, or where the first sample passes on slower machines."""

from __future__ import annotations

import pytest

from app.web.ui.charts.chart import choose_opening_budget
from evaluation.metrics import Curve


def curve(first_pass_s: float, end_s: float) -> Curve:
    """A run whose first sample passes at a moment, and which was given time up to another."""
    return Curve((first_pass_s, end_s), (0.0, 0.5), (0.5, 0.5))


@pytest.mark.parametrize(
    ("first_passes", "longest", "budget"),
    [
        ([1.0, 2.0], 14.0, 5.0),
        ([5.0], 14.0, 5.0),
        ([6.0, 4.0], 14.0, 5.0),  # any run will do
        ([6.0, 7.0], 14.0, 10.0),  # nothing passes within 5 s
        ([11.0], 14.0, 14.0),
        ([1.0], 3.0, 3.0),  # a run was given no more
        ([1.0], 5.0, 5.0),
        ([], 8.0, 8.0),  # nothing passes
    ],
)
def test_a_page_opens_at_5_s_or_at_the_next_budget_with_a_right_answer(first_passes, longest, budget):
    assert choose_opening_budget([curve(at, 20.0) for at in first_passes], longest) == budget
