"""What would help follows from how the samples failed: a larger budget only where the deadline cut most of them off."""

from __future__ import annotations

import pytest

from app.runs.failed_samples import FailureCounts, count_failed_samples
from app.runs.figures import get_finish_time
from app.runs.repository import load_tasks_with_samples


@pytest.mark.parametrize(
    ("failed", "remedy"),
    [
        (FailureCounts(80, cut=20, at_limit=3, stopped=57), "use a stronger model, or more samples per task"),
        (FailureCounts(80, cut=60, at_limit=0, stopped=20), "give a larger budget"),
        (FailureCounts(80, cut=5, at_limit=70, stopped=5), "allow more tokens per sample (--max-tokens)"),
        (FailureCounts(80, cut=30, at_limit=30, stopped=20), "a larger budget would not help those"),
    ],
)
def test_the_remedy_is_against_what_ended_most_of_them(failed, remedy):
    assert remedy in failed.remedy
    assert ("give a larger budget" in failed.advice) == (failed.cut == 60)


def test_it_says_how_many_ended_how_the_most_frequent_first():
    assert FailureCounts(80, cut=20, at_limit=0, stopped=57).in_words == (
        "77 of 80 samples failed: 57 stopped by themselves and are wrong, 20 were cut off by the deadline"
    )
    assert FailureCounts(80, 0, 0, 0).advice == ""


def test_a_single_sample_is_named_in_the_singular():
    assert FailureCounts(8, cut=1, at_limit=1, stopped=1).in_words == (
        "3 of 8 samples failed: 1 was cut off by the deadline, 1 stopped by itself and is wrong, "
        "1 reached the token limit and is wrong"
    )


def test_samples_are_counted_by_how_they_ended(world):
    run_id = world.add_run("slow", skill=0.3, pace=4.0, budget_s=5.0, n=6)
    with world.context.database.session() as session:
        samples = [sample for task in load_tasks_with_samples(session, run_id) for sample in task.samples]
        samples[0].finish_reason, samples[0].finished_s, samples[0].verdict = "length", 1.0, "wrong_answer"
        samples[1].finish_reason, samples[1].verdict = "cancelled", None
        samples[2].finish_reason, samples[2].verdict = "stop", "sandbox_error"
    with world.context.database.read() as session:
        found = count_failed_samples(session, [run_id])
    rest = samples[3:]
    cut = sum(get_finish_time(sample) is None for sample in rest)
    wrong = sum(sample.verdict != "passed" and get_finish_time(sample) is not None for sample in rest)
    assert min(cut, wrong) > 0
    assert (found.cut, found.at_limit, found.stopped, found.samples) == (cut, 1, wrong, len(rest) + 1)
