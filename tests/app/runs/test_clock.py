"""The clock of a run: which runs carry a mark, with which reason, and where it is shown."""

from __future__ import annotations

import json
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.runs import clock
from app.runs.documents import export_chunks
from app.runs.models import Calibration, RunTask
from app.runs.repository import get_run
from tests.app.pages.test_pages import text_of


def task(others: float, steal: float = 0.0, capacity: float = 20.0) -> RunTask:
    return RunTask(id=uuid.uuid4(), capacity_s=capacity, others_cpu_s=others, steal_s=steal)


def calibrations(*seconds: float) -> list[Calibration]:
    return [Calibration(verify_s=s, read_bytes_per_s=1e10) for s in seconds]


QUIET = calibrations(0.02, 0.0205)


def test_a_quiet_run_has_a_known_clock_without_marks():
    found = clock.compute_clock([task(0.2), task(0.9)], QUIET)
    assert (found.is_known, found.marks, found.disturbed) == (True, [], 0)
    assert found.lost_max == pytest.approx(0.045)
    assert found.drift == pytest.approx(0.025)


def test_a_task_that_lost_too_much_is_named_with_its_share():
    (mark,) = clock.compute_clock([task(0.2), task(9.0)], QUIET).marks
    assert mark == "In 1 of 2 tasks other programs used up to 45 % of the machine (limit 5 %)."


def test_a_task_that_is_not_disturbed_does_not_give_the_share_of_those_that_are():
    found = clock.compute_clock([task(0.04, capacity=0.1), task(0.6, capacity=10.0)], QUIET)
    assert found.marks == ["In 1 of 2 tasks other programs used up to 6 % of the machine (limit 5 %)."]
    assert found.lost_max == pytest.approx(0.4)


def test_time_that_the_hypervisor_withheld_is_called_so():
    (mark,) = clock.compute_clock([task(0.2, steal=3.0)], QUIET).marks
    assert mark.startswith("In 1 of 1 task the hypervisor withheld up to 16 % of the machine (limit 5 %)")


def test_drift_beyond_the_limit_is_a_mark_and_at_the_limit_is_none():
    assert clock.compute_clock([task(0)], calibrations(0.020, 0.0219, 0.021)).marks == []
    (mark,) = clock.compute_clock([task(0)], calibrations(0.020, 0.026, 0.021)).marks
    assert mark == "The machine changed its speed by 30 % during the run; 10 % is the limit."


def test_a_single_slow_verify_in_a_long_run_is_no_drift_and_a_slow_third_is_one():
    assert clock.compute_drift([0.02] * 9 + [0.05] + [0.02] * 8) == 0
    assert clock.compute_drift([0.02] * 12 + [0.03] * 6) == pytest.approx(0.5)
    assert clock.compute_drift([0.02] * 7 + [0.03] * 4 + [0.02] * 7) == pytest.approx(0.5)


@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=40))
def test_the_drift_is_never_more_than_between_the_extremes(verifies):
    drift = clock.compute_drift(verifies)
    assert 0 <= drift <= max(verifies) / min(verifies) - 1 + 1e-9


def test_one_tick_of_the_system_does_not_disturb_a_short_task():
    assert clock.compute_clock([task(0.02, capacity=0.2)], QUIET).marks == []


@pytest.mark.parametrize("known", [([], QUIET), ([task(0.1)], []), ([task(0.1)], calibrations(0.02))])
def test_a_run_without_readings_or_with_less_than_two_calibrations_is_unknown(known):
    found = clock.compute_clock(*known)
    assert not found.is_known
    assert found.marks == []


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100), st.floats(0.01, 50)), min_size=1))
def test_shares_stay_between_0_and_1_and_every_disturbed_task_is_beyond_the_limit(rows):
    tasks = [task(*row) for row in rows]
    found = clock.compute_clock(tasks, QUIET)
    assert 0 <= found.lost_max <= 1
    assert found.disturbed <= found.tasks == len(tasks)
    assert bool(found.marks) == bool(found.disturbed) == any(map(clock.is_disturbed, tasks))


def test_a_mark_is_on_the_board_the_run_compare_and_in_every_export(world):
    quiet = world.add_run("quiet", limit=None, n=1, seed=2)
    busy = world.add_run("busy", limit=None, n=1, lost=0.4, verifies=(0.02, 0.03))
    client = world.client
    reasons = (
        "In 164 of 164 tasks other programs used up to 40 % of the machine (limit 5 %).",
        "The machine changed its speed by 50 % during the run; 10 % is the limit.",
    )
    board = client.get("/leaderboard").text
    assert board.count("Clock disturbed") == 1
    assert f'title="{" ".join(reasons)}"' in board
    assert "The clock was disturbed." in client.get(f"/runs/{busy}").text
    assert "The clock was disturbed." not in client.get(f"/runs/{quiet}").text
    assert "40 %" in text_of(client.get(f"/runs/{busy}?tab=timing"))
    compared = text_of(client.get(f"/overlay/{quiet},{busy}"))
    assert all(f"B: {reason}" in compared for reason in reasons)
    figures = client.get(f"/api/v1/runs/{busy}").json["figures"]
    assert figures["clock_marks"] == list(reasons)
    assert (figures["tasks_disturbed"], figures["lost_to_others_max"]) == (164, pytest.approx(0.4))
    assert figures["clock_drift"] == pytest.approx(0.5)
    rows = {row["name"]: row for row in client.get("/api/v1/leaderboard").json["rows"]}
    assert (rows["busy"]["clock"], rows["quiet"]["clock"]) == (" ".join(reasons), "")
    with world.context.database.read() as session:
        (first, *_) = export_chunks(world.context.database, get_run(session, busy), "samples")
    assert json.loads(first)["lost_to_others"] == pytest.approx(0.4)


def test_a_run_from_before_it_was_recorded_has_no_mark_and_says_that_it_is_not_known(world):
    old = world.add_run("old", limit=None, n=1, lost=None, verifies=())
    assert "Clock disturbed" not in world.client.get("/").text
    assert "is not known of this run" in text_of(world.client.get(f"/runs/{old}?tab=timing"))
    assert world.client.get(f"/api/v1/runs/{old}").json["figures"]["clock_marks"] is None
