"""Charts over requests per second: rates on a logarithmic axis, gaps where nothing is known, idle as a level."""

from __future__ import annotations

import re

import pytest

from app.ui.charts.rates import RateLine, rate_chart


def places(chart, line: int = 0) -> list[tuple[float, float]]:
    numbers = re.findall(r"[ML] ([\d.]+) ([\d.]+)", chart.drawings[0].lines[line].d)
    return [(float(x), float(y)) for x, y in numbers]


def test_equal_ratios_of_rates_are_equal_distances():
    chart = rate_chart([RateLine("a", (0.1, 1.0, 10.0), (0.5, 0.5, 0.5))], "Quality", "Share", shares=True)
    (a, _), (b, _), (c, _) = places(chart)
    assert b - a == pytest.approx(c - b, abs=0.2)
    assert [tick.label for tick in chart.drawings[0].x_ticks] == ["0.1", "1", "10"]


def test_a_missing_value_is_a_gap_and_a_dash_in_the_table():
    chart = rate_chart([RateLine("a", (1.0, 2.0, 4.0), (0.5, None, 0.25), idle=0.6)], "Quality", "Share", shares=True)
    assert chart.drawings[0].lines[0].d.count("M") == 2
    assert len(chart.drawings[0].dots) == 2
    assert chart.table == [("idle", "60.0 %"), ("1", "50.0 %"), ("2", "–"), ("4", "25.0 %")]


def test_higher_values_stand_higher_and_all_fit_between_the_axes():
    line = RateLine("a", (1.0, 2.0), (3.0, 9.0), idle=12.0, low=(1.0, 8.0), high=(4.0, 11.0))
    chart = rate_chart([line], "Waits", "Seconds", level=5.0)
    (_, low), (_, high) = places(chart)
    drawing = chart.drawings[0]
    assert drawing.top <= high < low <= drawing.bottom
    (_, idle), *_ = places(chart, 2)  # after the line itself and the level
    assert drawing.top <= idle < high


def test_lines_over_other_rates_share_the_axis_and_one_rate_has_a_chart():
    a, b = RateLine("a", (0.5,), (0.1,)), RateLine("b", (0.1, 2.0), (0.2, 0.3), series=1)
    assert (rate_chart([a], "Quality", "Share").low, rate_chart([a], "Quality", "Share").high) == (0.25, 1.0)
    chart = rate_chart([a, b], "Quality", "Share")
    assert (chart.low, chart.high) == (0.1, 2.0)
    assert [row[0] for row in chart.table] == ["idle", "0.1", "0.5", "2"]
