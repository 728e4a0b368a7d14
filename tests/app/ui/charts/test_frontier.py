"""The envelope of several curves, and shares as colours: what is drawn is what the values say."""

from __future__ import annotations

from app.ui.charts.curves import Curve
from app.ui.charts.frontier import Envelope, frontier_chart
from tests.app.ui.charts.paths import corners

BUDGETS = (1.0, 2.0, 4.0, 8.0)
SLOW = Curve("slow", BUDGETS, (0.0, 0.1, 0.3, 0.9), series=0, key="a")
FAST = Curve("fast", BUDGETS, (0.2, 0.3, 0.4, 0.5), series=1, key="b")
BEST = Envelope(BUDGETS, ("b", "b", "b", "a"), (0.2, 0.3, 0.4, 0.9), (True, False, False, False))


def parts(chart, css: str):
    return [path for path in (*chart.drawings[0].lines, *chart.drawings[0].bands) if css in path.css]


def test_every_curve_is_thin_and_named_and_each_stretch_has_its_winners_colour():
    chart = frontier_chart([SLOW, FAST], BEST, "best", 164, budget=4)
    assert [path.key for path in parts(chart, "thin")] == ["a", "b"]
    assert [path.css for path in parts(chart, "best")] == ["curve best series-2", "curve best series-1"]
    assert [label.text for label in chart.drawings[0].labels] == ["slow", "fast"]
    assert chart.keys == [("slow", "series-1", "a"), ("fast", "series-2", "b")]
    assert chart.table[-1] == ("8 s", "slow", "90.0 %", "no")


def test_the_winners_stretches_join_without_a_gap():
    early, late = parts(frontier_chart([SLOW, FAST], BEST, "best", 164, budget=4), "best")
    assert corners(early.d)[-1] == corners(late.d)[0]


def test_the_part_that_is_too_close_to_call_is_shaded_up_to_the_next_budget():
    chart = frontier_chart([SLOW, FAST], BEST, "best", 164, budget=4)
    (shade,) = parts(chart, "close")
    left, right = min(corners(shade.d))[0], max(corners(shade.d))[0]
    assert abs((right - left) / (chart.drawings[0].right - left) - 1 / 3) < 0.01, "from 1 to 2 of 8 s"


def test_a_chart_in_which_nothing_has_passed_names_nobody():
    none = Envelope(BUDGETS, (None,) * 4, (0.0,) * 4, (False,) * 4)
    chart = frontier_chart([Curve("one", BUDGETS, (0.0,) * 4, key="a")], none, "best", 164, budget=4)
    assert not parts(chart, "best")
    assert chart.table[-1][1] == "none has passed"
