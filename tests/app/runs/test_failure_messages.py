"""The Failures tab: samples by cause and message, with counts, and links to the first sample of each task."""

from __future__ import annotations

import html
import re

import pytest
from sqlalchemy import select, update

from app.runs.failure_messages import find_causes
from app.runs.models import RunTask
from app.samples.models import Sample


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
