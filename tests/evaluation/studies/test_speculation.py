"""What speculation gains is measured against regular decoding with the same n, over the same tasks."""

from __future__ import annotations

import numpy as np
import pytest

from evaluation.studies.speculation import measure_speculation
from tests.evaluation.studies.making import MadeArm, arm, passing, score


def twice_as_fast(tasks: int = 40, seed: int = 0) -> list[MadeArm]:
    """The same verdicts, each after half of the time."""
    rng = np.random.default_rng(seed)
    times, passed = rng.uniform(1, 8, tasks).tolist(), (rng.random(tasks) < 0.6).tolist()
    slow = [[sample] for sample in zip(times, passed, strict=True)]
    fast = [[(time / 2, passes)] for ((time, passes),) in slow]
    return [arm("plain", slow, drafting_family="p"), arm("fast", fast, drafting_family="p", speculative=True)]


def test_half_of_the_time_is_saved_where_everything_is_twice_as_fast() -> None:
    (found,) = measure_speculation(score(twice_as_fast(), 8.0), [4.0, 8.0])
    assert (found.plain, found.speculative) == ("plain", "fast")
    for gain in found.gains:
        assert gain.speculative_s == pytest.approx(gain.plain_s / 2, rel=0.03)
        low, high = gain.saved_interval
        assert low is not None
        assert high is not None
        assert low <= gain.saved_s <= high
    at_4 = found.gains[0]
    assert at_4.gained == pytest.approx(at_4.speculative - at_4.plain)
    assert at_4.gained_interval[0] < at_4.gained < at_4.gained_interval[1]


def test_time_that_regular_decoding_did_not_need_is_not_saved() -> None:
    arms = [
        passing("plain", 10, 20, 2.0, drafting_family="p"),
        passing("fast", 10, 20, 1.0, drafting_family="p", speculative=True),
    ]
    (found,) = measure_speculation(score(arms, 10.0), [10.0])
    (gain,) = found.gains
    assert gain.plain_s == pytest.approx(2.0, rel=0.02)
    assert gain.saved_s == pytest.approx(1.0, rel=0.04)


def test_quality_that_speculation_does_not_reach_has_no_time() -> None:
    arms = [
        passing("plain", 15, 20, 2.0, drafting_family="p"),
        passing("worse", 5, 20, 1.0, drafting_family="p", speculative=True),
    ]
    (found,) = measure_speculation(score(arms, 10.0), [10.0])
    (gain,) = found.gains
    assert (gain.speculative_s, gain.saved_s, gain.saved_interval[0]) == (None, None, None)
    assert gain.gained == -0.5


def test_arms_that_do_not_differ_save_and_gain_nothing_with_an_interval() -> None:
    arms = [
        passing("plain", 5, 20, 2.0, drafting_family="p"),
        passing("same", 5, 20, 2.0, drafting_family="p", speculative=True),
    ]
    (found,) = measure_speculation(score(arms, 4.0), [4.0])
    (gain,) = found.gains
    assert (gain.gained, gain.saved_s) == (0.0, pytest.approx(0.0, abs=1e-6))
    assert gain.gained_interval[0] < 0 < gain.gained_interval[1]


def test_where_regular_decoding_has_solved_nothing_there_is_no_quality_to_reach() -> None:
    (found,) = measure_speculation(score(twice_as_fast(), 8.0), [0.5, 8.0])
    assert [gain.budget_s for gain in found.gains] == [8.0]
    never = [
        arm("plain", [[(None, False)]], drafting_family="p"),
        arm("fast", [[(None, False)]], drafting_family="p", speculative=True),
    ]
    (found,) = measure_speculation(score(never, 8.0), [8.0])
    assert found.gains == ()


def test_arms_of_different_pairs_are_not_set_against_each_other() -> None:
    arms = [
        passing("plain", 5, 9, drafting_family="n = 1"),
        passing("fast", 5, 9, drafting_family="n = 8", speculative=True),
    ]
    assert measure_speculation(score(arms, 4.0), [4.0]) == ()
