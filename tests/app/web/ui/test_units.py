"""The number of things that a share counts decides its decimals."""

from __future__ import annotations

import pytest

from app.web.ui.units import format_interval, format_percent, format_points, format_unsigned_points


@pytest.mark.parametrize("of", [1, 7, 82, 100, 164, 999])
def test_all_shares_of_as_many_tasks_are_told_apart(of):
    assert len({format_percent(k / of, of) for k in range(of + 1)}) == of + 1


def test_no_share_of_few_tasks_claims_a_decimal():
    assert (
        format_percent(2 / 3, 100),
        format_interval((0.311, 0.499), 82),
        format_points(-0.0366, 82),
        format_unsigned_points(-0.0366, 82),
    ) == (
        "67 %",
        "31 to 50",
        "−4",
        "4",
    )
    assert (format_percent(2 / 3, 164), format_interval((0.311, 0.499), 164), format_points(-0.0366, 164)) == (
        "66.7 %",
        "31.1 to 49.9",
        "−3.7",
    )


@pytest.mark.parametrize(("of", "text"), [(82, "0"), (164, "0.0")])
def test_no_difference_has_no_sign(of, text):
    assert {format_points(delta, of) for delta in (0.0, 0.0001, -0.0001)} == {text}
