"""The series of lines in a chart: one colour for each run, and a dash where two runs share it."""

from __future__ import annotations

from app.runs.labels import assign_series
from app.web.ui.charts.parts import SERIES, get_series_css


def test_consecutive_runs_have_different_colours():
    assert len({get_series_css(one) for one in assign_series(range(40, 40 + SERIES))}) == SERIES


def test_runs_of_one_colour_differ_in_their_dash():
    first, second, other = map(get_series_css, assign_series([2, 2 + SERIES, 3]))
    assert second.startswith(first)
    assert second != first
    assert other.split()[0] != first


def test_the_colour_does_not_depend_on_the_other_lines():
    alone, beside = assign_series([7])[0], assign_series([0, 1, 13, 7])[-1]
    assert alone % SERIES == beside % SERIES
