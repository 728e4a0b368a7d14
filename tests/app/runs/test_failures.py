"""How samples failed, what would help, and the Failures tab: causes, messages, and links to the first of a task."""

from __future__ import annotations

import html
import re

import pytest
from sqlalchemy import select, update

from app.runs.failures import FailureCounts, count_failed_samples, find_causes
from app.runs.figures import get_finish_time
from app.runs.models import RunTask
from app.runs.repository import load_tasks_with_samples
from app.samples.models import Sample


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


@pytest.fixture
def run(world):
    """Six samples over three tasks: three fail with one message, one with another, one is late."""
    run_id = world.add_run("one", n=2, limit=3, skill=1)
    index = {"verdict": "exception", "verdict_detail": "IndexError: list index out of range"}
    columns = [
        *(index, index, index),
        {"verdict": "exception", "verdict_detail": "KeyError: '<b>'\nand more"},
        {"verdict": "passed", "finish_reason": "deadline"},
        {"verdict": "passed"},
    ]
    with world.context.database.session() as session:
        in_order = select(Sample.id).join(RunTask).where(Sample.run_id == run_id)
        ids = session.scalars(in_order.order_by(RunTask.position, Sample.index))
        for sample_id, values in zip(ids.all(), columns, strict=True):
            fresh = {"finish_reason": "stop", "verdict_detail": None}
            session.execute(update(Sample).where(Sample.id == sample_id).values({**fresh, **values}))
    return run_id


def test_samples_with_one_message_stand_together(world, run):
    with world.context.database.read() as session:
        found = find_causes(session, run)
    exception, late = found
    assert (exception.sign.name, exception.samples, exception.tasks) == ("exception", 4, 2)
    index, key = exception.messages
    assert (index.text, index.samples) == ("IndexError: list index out of range", 3)
    assert [(t.task_id, t.samples, t.first) for t in index.tasks] == [("HumanEval/0", 2, 0), ("HumanEval/1", 1, 0)]
    assert (key.text, key.samples) == ("KeyError: '<b>'", 1)
    assert (late.sign.name, late.samples) == ("not finished", 1)
    assert [message.text for message in late.messages] == [""], "the verdict of what was cut off does not count"


def test_the_page_shows_messages_and_links(world, run):
    shown = world.client.get(f"/runs/{run}?tab=failures").get_data(as_text=True)
    said = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", "", shown)))
    assert "IndexError: list index out of range 3 samples, 2 tasks" in said
    assert "KeyError: &#39;&lt;b&gt;&#39;" in shown
    assert f'href="/runs/{run}/tasks/HumanEval/1#sample-0"' in shown
    assert 'class="count">5<' in shown
