"""The chart of a training: every value has its place on the axes, and a missing one leaves a gap."""

from __future__ import annotations

import re

import pytest

from app.ui.charts.training import Trace, training_chart


def chart(steps, *values, shares=True):
    traces = [Trace(f"trace {i}", one) for i, one in enumerate(values)]
    return training_chart(steps, traces, "Title", "Share", shares=shares)


def points(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML] (\S+) (\S+)", path)]


def test_values_lie_where_the_ticks_say():
    for drawing in chart([0, 500, 1000], [0.0, 0.2, 0.4]).drawings:
        ticks = {t.label: t.at for t in drawing.y_ticks}
        assert [y for _, y in points(drawing.lines[0].d)] == [ticks["0 %"], ticks["20 %"], ticks["40 %"]]
        across = {t.label: t.at for t in drawing.x_ticks}
        xs = [x for x, _ in points(drawing.lines[0].d)]
        assert (xs[0], xs[2]) == (across["0"], across["1\u202f000"])


def test_a_missing_value_leaves_a_gap():
    line = chart([0, 1, 2, 3, 4], [None, 0.1, 0.2, None, 0.3]).drawings[0].lines[0].d
    assert re.sub(r"[\d. ]", "", line) == "MLM"


def test_a_single_value_is_a_dot():
    for drawing in chart([100], [0.5]).drawings:
        assert [dot.text for dot in drawing.dots] == ["trace 0"]


@pytest.mark.parametrize("steps", [[0], [1], [3, 7], [0, 2**63 - 1], [5, 5]])
@pytest.mark.parametrize("value", [0.0, 1e-12, 0.35, 1.0, 7.7, 1e12, -1e12, None])
def test_any_value_stays_inside_and_no_axis_is_crowded(steps, value):
    for drawing in chart(steps, [value] * len(steps), shares=False).drawings:
        assert 1 <= len(drawing.x_ticks) <= 12
        assert 2 <= len(drawing.y_ticks) <= 7
        for x, y in points(drawing.lines[0].d):
            assert drawing.left <= x <= drawing.right
            assert drawing.top <= y <= drawing.bottom


def test_lines_differ_in_more_than_colour():
    lines = chart([0, 1], [0.1, 0.2], [0.2, 0.3], [0.3, 0.4]).drawings[0].lines
    assert len({re.sub(r"series-\d", "", line.css) for line in lines}) == 3


def test_the_table_holds_every_value():
    made = chart([0, 10], [None, 0.25], [0.5, 0.75])
    assert made.table_head == ("Step", "trace 0", "trace 1")
    assert made.table == [("0", "–", "50.0 %"), ("10", "25.0 %", "75.0 %")]
