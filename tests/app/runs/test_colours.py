"""The series of lines in a chart: one colour for each run, and a dash where two runs share it."""

from __future__ import annotations

from app.runs.labels import series_of
from app.web.ui.charts.parts import SERIES, series_css


def test_consecutive_runs_have_different_colours():
    assert len({series_css(one) for one in series_of(range(40, 40 + SERIES))}) == SERIES


def test_runs_of_one_colour_differ_in_their_dash():
    first, second, other = map(series_css, series_of([2, 2 + SERIES, 3]))
    assert second.startswith(first)
    assert second != first
    assert other.split()[0] != first


def test_the_colour_does_not_depend_on_the_other_lines():
    alone, beside = series_of([7])[0], series_of([0, 1, 13, 7])[-1]
    assert alone % SERIES == beside % SERIES
