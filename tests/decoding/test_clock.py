"""Before a round the clock says whether it still fits."""

import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoding.costs import CostEstimator
from decoding.state.clock import Clock


@pytest.fixture(scope="module", autouse=True)
def _time_stands_still() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "perf_counter", lambda: 0.0)
        yield


def test_no_budget_never_ends() -> None:
    assert Clock(None).fits(1e9)


def test_what_does_not_fit_does_not_begin() -> None:
    clock = Clock(1000.0)
    assert clock.fits(999.0)
    assert not clock.fits(1001.0)


@given(st.lists(st.floats(0.001, 10), min_size=4, max_size=9))
def test_the_next_round_is_expected_to_cost_more_than_any_recent_one(rounds: list[float]) -> None:
    timer = CostEstimator()
    for seconds in rounds:
        timer.observe(seconds)
    assert timer.expected_s > max(rounds[-4:])
    assert timer.least_s == min(rounds[-4:])


@given(st.lists(st.floats(0.001, 10), min_size=1, max_size=9), st.floats(0.001, 10))
def test_what_an_earlier_batch_cost_is_believed_to_a_quarter_and_certain_is_only_what_this_one_measures(
    earlier: list[float], now: float
) -> None:
    timer = CostEstimator()
    for seconds in earlier:
        timer.observe(seconds)
    timer.restart()
    assert timer.expected_s == min(earlier) / 4
    assert timer.known_s == min(earlier)
    assert timer.least_s == 0.0
    timer.observe(now)
    assert timer.least_s == now < timer.expected_s


def test_what_was_measured_a_while_ago_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    timer = CostEstimator()
    timer.observe(3.0)
    assert timer.least_s == 3.0
    now = 1.5
    assert timer.least_s == 0.0
    assert timer.expected_s > 3.0
    timer.observe(4.0)
    assert timer.least_s == 3.0
