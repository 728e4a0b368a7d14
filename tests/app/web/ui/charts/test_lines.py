"""Charts of lines: every value has its place on the axes, a missing one leaves a gap, and lines differ by name."""

from __future__ import annotations

import re

import pytest

from app.web.ui.charts.lines import Line, training_chart


def training(steps, *values, shares=True):
    lines = [Line(f"trace {i}", steps, one, series=i, dash=i + 1) for i, one in enumerate(values)]
    return training_chart(lines, "Title", "Share", shares=shares)


def points(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML] (\S+) (\S+)", path)]


@pytest.mark.parametrize("length", range(1, 34))
def test_a_name_that_has_room_is_written_in_full(length):
    chart = training_chart([Line("a" * length, (0, 100), (0.5, 0.5))], "Title", "Share", shares=True)
    assert [label.text for label in chart.drawings[0].labels] == ["a" * length]


def test_values_lie_where_the_ticks_say():
    for drawing in training([0, 500, 1000], [0.0, 0.2, 0.4]).drawings:
        ticks = {t.label: t.at for t in drawing.y_ticks}
        assert [y for _, y in points(drawing.lines[0].d)] == [ticks["0 %"], ticks["20 %"], ticks["40 %"]]
        across = {t.label: t.at for t in drawing.x_ticks}
        xs = [x for x, _ in points(drawing.lines[0].d)]
        assert (xs[0], xs[2]) == (across["0"], across["1\u202f000"])


def test_a_missing_step_leaves_a_gap():
    line = training([0, 1, 2, 3, 4], [None, 0.1, 0.2, None, 0.3]).drawings[0].lines[0].d
    assert re.sub(r"[\d. ]", "", line) == "MLM"


def test_a_single_value_is_a_dot():
    for drawing in training([100], [0.5]).drawings:
        assert [dot.text for dot in drawing.dots] == ["trace 0"]


@pytest.mark.parametrize("steps", [[0], [1], [3, 7], [0, 2**63 - 1], [5, 5]])
@pytest.mark.parametrize("value", [0.0, 1e-12, 0.35, 1.0, 7.7, 1e12, -1e12, None])
def test_any_value_stays_inside_and_no_axis_is_crowded(steps, value):
    for drawing in training(steps, [value] * len(steps), shares=False).drawings:
        assert 1 <= len(drawing.x_ticks) <= 12
        assert 2 <= len(drawing.y_ticks) <= 7
        for x, y in points(drawing.lines[0].d):
            assert drawing.left <= x <= drawing.right
            assert drawing.top <= y <= drawing.bottom


def test_lines_differ_in_more_than_colour():
    lines = training([0, 1], [0.1, 0.2], [0.2, 0.3], [0.3, 0.4]).drawings[0].lines
    assert len({re.sub(r"series-\d", "", line.css) for line in lines}) == 3


def test_the_table_holds_every_value():
    made = training([0, 10], [None, 0.25], [0.5, 0.75])
    assert made.table_head == ("Step", "trace 0", "trace 1")
    assert made.table == [("0", "–", "50.0 %"), ("10", "25.0 %", "75.0 %")]
