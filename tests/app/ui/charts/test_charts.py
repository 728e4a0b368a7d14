"""Charts put values where they belong, in order, inside their frame, and keep a table of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ui.charts.curves import Curve, difference, pass_curves
from app.ui.charts.parts import LINE, Label, placed
from app.ui.charts.scatter import Point, pareto, scatter
from app.ui.charts.timeline import Life, ledger, timeline
from tests.app.ui.charts.paths import corners

SHARES = st.floats(0, 1)
SECONDS = st.floats(0.05, 500)


@given(st.lists(st.tuples(SECONDS, SHARES), max_size=12))
def test_nobody_beats_a_point_of_the_front_and_somebody_beats_every_other(found):
    items = [Point(str(i), x, y, y) for i, (x, y) in enumerate(found)]
    front = pareto(items)
    for p in front:
        assert not any(q.x <= p.x and q.y >= p.y and (q.x, q.y) != (p.x, p.y) for q in items)
    for p in items:
        assert p in front or p.y == 0 or any(q.x <= p.x and q.y >= p.y for q in front)


def test_the_frame_of_the_scatter_stays_when_the_budget_moves_the_points():
    late = scatter([Point("a", 2.0, 0.4, 0.4)], "t", "x", 10)
    early = scatter([Point("a", 2.0, 0.0, 0.4)], "t", "x", 1)
    frames = [(axes.low, axes.high, axes.top) for axes in (early.layouts[0], late.layouts[0])]
    assert frames[0] == frames[1]
    assert early.drawings[0].dots[0].x == late.drawings[0].dots[0].x
    assert early.drawings[0].dots[0].y == early.drawings[0].bottom
    assert "on the front, beaten by none in both: none" in early.description


@given(st.lists(SHARES, min_size=2, max_size=20))
def test_a_curve_stays_inside_its_frame_and_its_table_holds_its_values(values):
    budgets = [0.5 * 1.4**i for i in range(len(values))]
    chart = pass_curves([Curve("one", budgets, values)], "t", budget=1.0)
    for drawing in chart.drawings:
        for x, y in corners(drawing.lines[0].d):
            assert drawing.left <= x <= drawing.right
            assert drawing.top <= y <= drawing.bottom
    assert chart.table[-1][1] == f"{100 * values[-1]:.1f} %"


def test_a_difference_is_drawn_around_zero_and_marks_where_it_crosses():
    chart = difference((1, 2, 4), (-0.1, 0.0, 0.2), (-0.2, -0.1, 0.1), (0.0, 0.1, 0.3), "t", budget=4, marks=[(4, "m")])
    for drawing in chart.drawings:
        ys = [y for _, y in corners(drawing.lines[0].d)]
        assert max(ys) > drawing.base > min(ys)
        assert [mark.text for mark in drawing.marks] == ["m"]
    assert chart.table[-1] == ("4 s", "+20.0", "+10.0", "+30.0")


def test_a_long_wait_in_the_queue_does_not_hide_where_the_clock_went():
    segments = ledger([("queue", "Queue", 3600.0), ("verify", "Verify", 3.0), ("draft", "Draft", 1.0)], "queue")
    assert [s.value for s in segments] == [3600.0, 3.0, 1.0]
    assert [s.share for s in segments] == [None, 0.75, 0.25]
    assert sum(s.width for s in segments) == pytest.approx(1000, abs=0.1)
    assert segments[0].width == pytest.approx(200, abs=0.1)


def test_a_ledger_of_nothing_has_no_width():
    assert [s.width for s in ledger([("queue", "Queue", 0.0), ("verify", "Verify", 0.0)], "queue")] == [0, 0]


def test_the_seconds_of_a_bar_are_not_written_across_the_budget_line():
    lives = [Life("0", None, 0.1, 2.0), Life("1", None, 0.1, 4.8)]
    for drawing, (early, late) in timeline(lives, budget=5.0, wall=5.0).drawings:
        assert early.words == early.end + 5
        assert late.words > drawing.cursor > late.end


@given(st.lists(st.tuples(st.floats(100, 900), st.floats(20, 360)), max_size=30))
def test_labels_stand_near_their_curves_and_never_on_each_other(ends):
    labels = placed([Label(x, y, f"run number {i}", "") for i, (x, y) in enumerate(ends)], 20, 360, LINE)
    shown = [label for label in labels if not label.crowded]
    for label, (_, y) in zip(labels, ends, strict=True):
        assert abs(label.y - y) <= LINE
    for i, one in enumerate(shown):
        for other in shown[:i]:
            assert abs(one.y - other.y) >= LINE or abs(one.x - other.x) >= 12 * 6
    assert not labels or not labels[0].crowded, "the best is always named"
