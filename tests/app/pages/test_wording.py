"""What pages say of one thing, of numbers with units, of prompts that were never sent, and of missing pages."""

from __future__ import annotations

import html
import re

import pytest
from sqlalchemy import update

from app.core.states import RunState, TaskState
from app.runs.models import RunTask
from app.samples.models import Sample
from app.web.ui.units import format_count

ONE_OF_MANY = re.compile(
    r"\b1 (arguments|characters|functions|lines|messages|runs|samples|tasks|texts|tokens|verdicts)\b"
)


def text_of(answer) -> str:
    """The page as a screen reader reads it: without tags, and no blank where there is none."""
    return re.sub(
        r"\s+", " ", html.unescape(re.sub(r"</?(?:span|strong|a)\b[^>]*>", "", answer.get_data(as_text=True)))
    )


def test_a_noun_agrees_with_its_number():
    assert [format_count(n, "task") for n in (0, 1, 2, 1200)] == ["0 tasks", "1 task", "2 tasks", "1\u202f200 tasks"]


@pytest.mark.parametrize("state", [RunState.FINISHED, RunState.RUNNING, RunState.CANCELLED])
def test_one_task_is_not_tasks(world, state):
    run = world.add_run("one", n=1, limit=1, done=0 if state is RunState.RUNNING else 1, state=state)
    with world.context.database.session() as session:
        session.execute(update(Sample).values(n_tokens=1))
    tabs = ["curve", "tasks", "failures", "timing", "config"]
    paths = [
        "/",
        "/leaderboard?rows=all",
        "/runs",
        *(f"/runs/{run}?tab={tab}" for tab in tabs),
        f"/runs/{run}/tasks/HumanEval/0",
    ]
    for path in paths:
        answer = world.client.get(path)
        assert answer.status_code == 200
        assert ONE_OF_MANY.findall(text_of(answer)) == [], path


def test_one_common_task_is_compared_as_one(world):
    a, b = (world.add_run(name, n=1, limit=1) for name in "ab")
    page = text_of(world.client.get(f"/overlay/{a},{b}"))
    assert ONE_OF_MANY.findall(page) == []
    assert "over the 1 task that both have graded" in page


def test_a_blank_stands_between_a_number_and_its_unit(world):
    a = world.add_run("a", n=2, limit=8)
    for path in (f"/runs/{a}", f"/runs/{a}?tab=timing"):
        figures = re.findall(r'<dd class="figure num">.*?</dd>', world.client.get(path).get_data(as_text=True))
        units = [figure for figure in figures if '"unit"' in figure]
        assert units, path
        assert all(' <span class="unit">' in figure for figure in units), path


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (TaskState.QUEUED, "Not sent yet: the task is queued."),
        (TaskState.FINISHED, "No prompt was sent: the task ended before it was decoded."),
        (TaskState.SKIPPED, "No prompt was sent: the task ended before it was decoded."),
    ],
)
def test_a_prompt_that_was_not_sent_is_said_to_be_so_without_contradiction(world, state, said):
    run = world.add_run("waiting", limit=1, done=0, state=RunState.RUNNING)
    with world.context.database.session() as session:
        session.execute(update(RunTask).values(state=state))
    assert said in text_of(world.client.get(f"/runs/{run}/tasks/HumanEval/0"))


def test_samples_without_a_stored_prompt_do_not_wait_for_one(world):
    run = world.add_run("imported", limit=1)
    with world.context.database.session() as session:
        session.execute(update(RunTask).values(prompt_sent=None))
    assert "No prompt is stored with these samples." in text_of(world.client.get(f"/runs/{run}/tasks/HumanEval/0"))


def test_a_page_that_is_not_there_is_at_no_place_of_the_navigation(world):
    answer = world.client.get("/no/such/page")
    assert answer.status_code == 404
    assert "aria-current" not in answer.get_data(as_text=True)
    assert world.client.get("/runs").get_data(as_text=True).count('href="/runs" aria-current="page"') >= 1
