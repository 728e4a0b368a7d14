"""The Failures tab: samples by cause, message and line, with counts, and links to the first sample of each task."""

from __future__ import annotations

import html
import re
from types import SimpleNamespace

import pytest
from sqlalchemy import select, update

from app.runs.failure_messages import causes, failed_line
from app.runs.models import RunTask
from app.samples.models import Sample

TRACE = (
    "Traceback (most recent call last):\n"
    '  File "<candidate>", line 3, in solve\n'
    "    return helper(items)\n"
    "           ^^^^^^^^^^^^^\n"
    '  File "<candidate>", line 9, in helper\n'
    "    return items[5]\n"
    "           ~~~~~^^^\n"
    "IndexError: list index out of range"
)


def sample(**columns):
    empty = dict.fromkeys(("verdict", "verdict_detail", "failing_assert", "traceback", "broken_program"))
    return SimpleNamespace(**{**empty, **columns})


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        ({"failing_assert": "assert f(1) == 2", "traceback": TRACE}, "assert f(1) == 2"),
        ({"verdict": "exception", "traceback": TRACE}, "return items[5]"),
        ({"traceback": 'Traceback:\n  File "<candidate>", line 12, in check\nAssertionError'}, "line 12"),
        (
            {
                "verdict": "syntax_error",
                "verdict_detail": "'(' was never closed (line 2)",
                "broken_program": "x = 1\n  y = (\n",
            },
            "y = (",
        ),
        ({"verdict": "syntax_error", "verdict_detail": "bad (line 99)", "broken_program": "x"}, ""),
        ({"verdict": "syntax_error", "verdict_detail": "bad", "broken_program": None}, ""),
        ({"verdict": "timeout", "verdict_detail": "ran past 3 s"}, ""),
    ],
)
def test_the_line_that_failed(columns, line):
    assert failed_line(sample(**columns)) == line


@pytest.fixture
def run(world):
    """Six samples over three tasks: two fail with one message at two lines, one with another, one is late."""
    run_id = world.add_run("one", n=2, limit=3, skill=1)
    columns = [
        {"verdict": "exception", "verdict_detail": "IndexError: list index out of range", "traceback": TRACE},
        {
            "verdict": "exception",
            "verdict_detail": "IndexError: list index out of range",
            "traceback": TRACE.replace("items[5]", "items[6]"),
        },
        {"verdict": "exception", "verdict_detail": "IndexError: list index out of range", "traceback": TRACE},
        {"verdict": "exception", "verdict_detail": "KeyError: '<b>'\nand more", "traceback": ""},
        {"verdict": "passed", "finish_reason": "deadline"},
        {"verdict": "passed"},
    ]
    with world.context.database.session() as session:
        in_order = select(Sample.id).join(RunTask).where(Sample.run_id == run_id)
        ids = session.scalars(in_order.order_by(RunTask.position, Sample.index))
        for sample_id, values in zip(ids.all(), columns, strict=True):
            fresh = {"finish_reason": "stop", "failing_assert": None, "verdict_detail": None, "traceback": None}
            session.execute(update(Sample).where(Sample.id == sample_id).values({**fresh, **values}))
    return run_id


def test_samples_with_one_message_stand_together_and_their_lines_below_it(world, run):
    with world.context.database.read() as session:
        found = causes(session, run)
    exception, late = found
    assert (exception.sign.name, exception.samples, exception.tasks) == ("exception", 4, 2)
    index, key = exception.messages
    assert (index.text, index.samples, index.tasks) == ("IndexError: list index out of range", 3, 2)
    assert [(line.text, line.samples) for line in index.lines] == [("return items[5]", 2), ("return items[6]", 1)]
    assert [(t.task_id, t.samples, t.first) for t in index.lines[0].tasks] == [
        ("HumanEval/0", 1, 0),
        ("HumanEval/1", 1, 0),
    ]
    assert (key.text, key.samples) == ("KeyError: '<b>'", 1)
    assert (late.sign.name, late.samples) == ("not finished", 1)
    assert [message.text for message in late.messages] == [""], "the verdict of what was cut off does not count"


def test_the_page_shows_messages_lines_and_links(world, run):
    shown = world.client.get(f"/runs/{run}?tab=failures").get_data(as_text=True)
    said = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", "", shown)))
    assert "IndexError: list index out of range 3 samples, 2 tasks" in said
    assert "return items[5]" in said
    assert "KeyError: &#39;&lt;b&gt;&#39;" in shown
    assert f'href="/runs/{run}/tasks/HumanEval/1#sample-0"' in shown
    assert 'class="count">5<' in shown
    in_all_runs = html.unescape(re.search(r'href="(/search\?q=[^"]+)"', shown)[1])
    assert world.client.get(in_all_runs).status_code == 200
