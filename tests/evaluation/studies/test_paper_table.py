"""The paper's table: budgets that regular decoding sets, and each arm there."""

from __future__ import annotations

import pytest

from evaluation.studies.paper_table import PaperPoint, build_paper_table
from tests.evaluation.studies.making import MadeArm, arm, passing, score


def paper() -> list[MadeArm]:
    """Regular decoding finishes a task of eight after 1, 2, ... 10 s; speculation needs half of that."""
    times = [float(second) for second in range(1, 11)]
    options = {"speculative": True}
    return [
        arm(
            "batched",
            [[(t / 2, True)] * 8 for t in times],
            drafting_family="8",
            tokens_per_s=900.0,
            mean_acceptance_length=2.9,
            **options,
        ),
        arm("single", [[(t / 4, t <= 5)] for t in times], drafting_family="1", **options),
        arm("regular", [[(t, True)] * 8 for t in times], drafting_family="8"),
        arm("regular alone", [[(t / 2, t <= 5)] for t in times], drafting_family="1"),
    ]


def test_rows_are_in_the_order_of_the_paper() -> None:
    rows = build_paper_table(score(paper(), 10.0))
    assert [(row.arm, row.method) for row in rows] == [
        ("regular alone", "regular decoding"),
        ("regular", "regular decoding"),
        ("single", "single-sequence speculation"),
        ("batched", "batched speculation"),
    ]


def test_the_budgets_are_when_batched_regular_decoding_has_finished_its_samples() -> None:
    _, regular, single, batched = build_paper_table(score(paper(), 10.0))
    assert regular.points == (PaperPoint(0.5, 5.0, 0.5, 0.5, 0.5), PaperPoint(0.9, 9.0, 0.9, 0.9, 0.9))
    assert batched.points[0] == PaperPoint(0.5, 5.0, 1.0, 1.0, 1.0)
    assert single.points[0] == PaperPoint(0.5, 5.0, 0.5, 0.5, 1.0)


def test_the_speed_up_is_against_regular_decoding_with_the_same_n() -> None:
    alone, regular, single, batched = build_paper_table(score(paper(), 10.0))
    assert (alone.speed_up, regular.speed_up) == (None, None)
    assert (single.speed_up, batched.speed_up) == (pytest.approx(2.0), pytest.approx(2.0))
    assert regular.ms_per_token_all == pytest.approx(55.0)
    assert (batched.tokens_per_s, batched.mean_acceptance_length, batched.utilization) == (900.0, 2.9, None)


def test_the_speed_up_counts_only_tasks_that_both_finished() -> None:
    """Regular decoding finishes only the quick task; the slow one of the other arm must not count against it."""
    regular = arm("regular", [[(2.0, True)], [(None, False)]], drafting_family="p")
    fast = arm("fast", [[(1.0, True)], [(4.0, True)]], drafting_family="p", speculative=True)
    assert build_paper_table(score([regular, fast], 4.0))[1].speed_up == pytest.approx(2.0)
    never = arm("regular", [[(None, False)], [(None, False)]], drafting_family="p")
    assert build_paper_table(score([never, fast], 4.0))[1].speed_up is None


def test_shares_that_regular_decoding_never_finishes_have_no_budget() -> None:
    half = arm("regular", [[(2.0, True)], [(None, False)]])
    (row,) = build_paper_table(score([half], 4.0))
    assert row.points == (PaperPoint(0.5, 2.0, 0.5, 0.5, 0.5), PaperPoint(0.9, None, None, None, None))


def test_without_regular_decoding_of_the_target_there_is_no_budget() -> None:
    other = passing("other target", 1, 2, target="1.5b")
    rows = build_paper_table(score([passing("fast", 1, 2, speculative=True), other], 4.0))
    assert [row.arm for row in rows] == ["fast", "other target"]
    assert rows[0].speed_up is None
    assert {point.budget_s for point in rows[0].points} == {None}


def test_an_arm_with_no_finished_sample_has_no_time_per_token() -> None:
    (row,) = build_paper_table(score([arm("regular", [[(None, False)]])], 4.0))
    assert (row.ms_per_token_first, row.ms_per_token_last, row.ms_per_token_all) == (None, None, None)
