"""Charts put values where they belong, in order, inside their frame, and keep a table of them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.runs.presentation import draw_curve
from app.web.ui.charts.chart import HALF, ChartCurve, LineCurve, choose_figure, draw_comparison, draw_pass_curves
from app.web.ui.charts.parts import LINE, Drawing, Label
from evaluation.metrics import Curve as MeasuredCurve
from evaluation.metrics import compute_wilson_interval
from tests.app.web.ui.charts.paths import corners

SHARES = st.floats(0, 1)


def blank() -> Drawing:
    return Drawing("wide", 1200, 400, 96, 1, 10, 1.0)


@given(st.lists(SHARES, min_size=2, max_size=20))
def test_a_curve_stays_inside_its_frame_and_its_table_holds_its_values(values):
    budgets = [0.5 * 1.4**i for i in range(len(values))]
    chart = draw_pass_curves([ChartCurve("one", budgets, values)], "t", 164, budget=1.0)
    for drawing in chart.drawings:
        for x, y in corners(drawing.lines[0].d):
            assert drawing.left <= x <= drawing.right
            assert drawing.top <= y <= drawing.bottom
    assert chart.table[-1][1] == f"{100 * values[-1]:.1f} %"


@given(st.lists(st.floats(22, 354), max_size=24))
def test_every_line_has_its_name_in_the_order_of_the_ends_and_no_name_covers_another(ys):
    drawing = blank()
    drawing.draw_names([Label(drawing.right, y, f"run {i}", "") for i, y in enumerate(ys)], 24)
    assert [label.text for label in drawing.labels] == [f"run {i}" for i in range(len(ys))]
    apart = min(LINE, (drawing.bottom - drawing.top) / max(len(ys) - 1, 1))
    placed = [label.y for label in sorted(drawing.labels, key=lambda label: label.y)]
    assert all(below - above >= apart - 0.2 for above, below in pairwise(placed))
    assert all(drawing.top - 0.2 <= y <= drawing.bottom + 0.2 for y in placed)
    in_order = [drawing.labels[i].y for i in sorted(range(len(ys)), key=lambda i: ys[i])]
    assert in_order == sorted(in_order)


def test_names_that_have_room_stand_beside_their_ends():
    drawing = blank()
    drawing.draw_names([Label(drawing.right, y, "a", "") for y in (40.0, 100.0, 300.0)], 24)
    assert [label.y for label in drawing.labels] == [40.0, 100.0, 300.0]
    assert not drawing.lines, "nothing needs a line to its end"


def test_a_reading_holds_at_its_budget_and_a_line_is_not_read_past_its_end():
    curves = [ChartCurve("a", (1.0, 3.17, 8.0), (0.1, 0.5, 0.9)), ChartCurve("b", (1.5, 4.0), (0.2, 0.3))]
    chart = draw_pass_curves(curves, "t", 82, budget=3.171)
    assert chart.budgets[chart.position] == 3.171, "the page's budget is read, too"
    for curve in curves:
        values = chart.values(curve)
        exact = [curve.at(budget) for budget in chart.budgets if budget <= curve.budgets[-1]]
        assert values == [f"{100 * share:.0f}" for share in exact]
    assert chart.format_current(curves[0]) == "50 %"
    assert draw_pass_curves(curves, "t", 82, budget=5.0).format_current(curves[1]) == "–"


def test_long_names_that_begin_alike_are_told_apart_by_their_ends():
    drawing = blank()
    names = ["a-model-with-a-long-name-base", "a-model-with-a-long-name-chat", "a-model-of-another-long-name", "short"]
    drawing.draw_names([Label(0, 30.0 * i, name, "") for i, name in enumerate(names)], 16)
    texts = [label.text for label in drawing.labels]
    assert texts == ["a-model…ame-base", "a-model…ame-chat", "a-model…ong-name", "short"]


@pytest.mark.parametrize("n_lines", [2, 6])
def test_the_drawing_has_room_for_the_names_of_the_lines(n_lines):
    lines = [
        LineCurve(str(i), "", f"qwen2.5-coder-0.5b, int{i}", i, MeasuredCurve((2.0, 4.0), (0.5, 0.5), (0.5, 1.0)))
        for i in range(n_lines)
    ]
    wide = draw_comparison(lines, choose_figure(lines), 10, 4.0).drawings[0]
    assert {line.name for line in lines} <= {label.text for label in wide.labels}
    assert all(label.x + 6.5 * len(label.text) <= wide.width for label in wide.labels)


def test_few_ticks_stand_at_powers_of_ten_and_at_most_two_steps_of_the_share():
    drawing = draw_pass_curves([ChartCurve("one", [0.4, 20.0], [0.2, 0.9])], "t", 164, budget=5.0, width=HALF).drawings[
        0
    ]
    assert [tick.label for tick in drawing.x_ticks] == ["1 s", "10 s"]
    assert [tick.label for tick in drawing.y_ticks] == ["0 %", "50 %", "100 %"]


def test_a_line_to_a_name_does_not_look_like_a_curve():
    drawing = blank()
    drawing.draw_names([Label(drawing.right, 100.0, name, "series-1") for name in "ab"], 24)
    assert {line.css for line in drawing.lines} == {"leader"}


def test_the_interval_of_a_run_is_drawn_where_nothing_is_right_yet():
    (chosen, _) = draw_curve(MeasuredCurve((2.0, 4.0), (0.5, 0.5), (0.5, 1.0)), 10, 4.0).curves
    assert chosen.at(1.0) == 0
    assert (chosen.low[0], chosen.high[0]) == compute_wilson_interval(0, 10)
