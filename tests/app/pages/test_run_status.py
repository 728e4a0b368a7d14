"""A run's page tells waiting from working, decoded from graded, and what could have been forged."""

from __future__ import annotations

import html
import re

import pytest
from sqlalchemy import update

from app.core.events import event_types
from app.core.states import RunState, TaskState
from app.runs import figures
from app.runs.models import Run, RunTask
from app.runs.repository import get_run
from app.samples.models import Sample
from app.web.ui.units import format_ordinal


def text_of(answer) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", answer.get_data(as_text=True))))


def leave_ungraded(world, run_id, kept: int, state: TaskState, run_state: RunState) -> None:
    """Takes the verdicts of all but the first `kept` tasks away, as if the run had ended before they were given."""
    with world.context.database.session() as session:
        rest = [row.id for row in session.get(Run, run_id).tasks[kept:]]
        session.execute(update(RunTask).where(RunTask.id.in_(rest)).values(state=state))
        session.execute(update(Sample).where(Sample.run_task_id.in_(rest)).values(verdict=None))
        session.execute(update(Run).where(Run.id == run_id).values(state=run_state))
    with world.context.database.session() as session:
        run = get_run(session, run_id)
        figures.store_measurement(session, run, figures.compute_measurement(session, run))


@pytest.mark.parametrize(
    ("state", "run_state"),
    [(TaskState.DECODED, RunState.INTERRUPTED), (TaskState.GRADING, RunState.CANCELLED)],
)
def test_a_run_stopped_while_it_was_graded_says_how_much_was_and_offers_to_resume(world, state, run_state):
    run = world.add_run("stopped", limit=8, n=1)
    leave_ungraded(world, run, 3, state, run_state)
    page = text_of(world.client.get(f"/runs/{run}"))
    assert "8 of 8 tasks were decoded and 3 graded." in page
    assert "Resume runs the remaining 5 tasks." in page
    assert ">Resume</button>" in world.client.get(f"/runs/{run}").get_data(as_text=True)
    listed = text_of(world.client.get("/runs"))
    assert "3 graded" in listed


def test_a_finished_run_with_failed_tasks_says_that_its_figures_cover_the_others(world):
    run = world.add_run("half", limit=8, n=1)
    leave_ungraded(world, run, 3, TaskState.FAILED, RunState.FINISHED)
    page = text_of(world.client.get(f"/runs/{run}"))
    assert "3 of 8 tasks were graded; 8 were decoded." in page
    assert "5 tasks failed." in page
    assert "3 of 164 tasks" in text_of(world.client.get("/leaderboard"))


def test_a_run_that_nobody_has_taken_up_is_waiting(world):
    first = world.add_run("first", state=RunState.RUNNING, done=0, limit=4)
    with world.context.database.session() as session:
        session.execute(update(RunTask).values(state=TaskState.QUEUED))
    second = world.add_run("second", state=RunState.QUEUED, done=0, limit=4)
    assert "queued 0 of 4 tasks decoded" in text_of(world.client.get(f"/runs/{second}"))
    assert "waiting 0 of 4 tasks decoded" in text_of(world.client.get(f"/runs/{first}"))


def test_a_run_whose_model_is_being_loaded_says_so_however_often_the_page_is_fetched(world):
    run = world.add_run("first", state=RunState.RUNNING, done=0, limit=4)
    assert "running 0 of 4 tasks decoded" in text_of(world.client.get(f"/runs/{run}"))
    world.context.bus.publish(run, event_types.LOADING, {"message": "reading 270 MB of weights"})
    page = text_of(world.client.get(f"/runs/{run}"))
    assert "loading model 0 of 4 tasks decoded" in page
    assert "reading 270 MB of weights" in page
    world.context.bus.publish(run, event_types.TOKENS, {"task_id": "HumanEval/0"})
    assert "running 0 of 4 tasks decoded" in text_of(world.client.get(f"/runs/{run}"))


def test_the_stored_speed_up_over_plain_decoding_is_shown(world):
    run = world.add_run("quick", limit=4)
    with world.context.database.session() as session:
        row = session.get(Run, run)
        row.figures = row.figures.model_copy(update={"speedup_over_plain": 1.87, "speedup_tasks": 4})
    page = text_of(world.client.get(f"/runs/{run}"))
    assert "Speed-up 1.87 × tokens per second against plain decoding, over 4 tasks" in page


def test_verdicts_that_a_program_could_have_forged_are_counted_on_the_page(world):
    run = world.add_run("trusting", limit=4, n=2)
    counted = {"in_guest_tasks": 2, "in_guest_samples": 3, "in_guest_passed": 1,
               "pass_first_proxy": 0.25, "pass_all_proxy": 0.5}  # fmt: skip
    with world.context.database.session() as session:
        row = session.get(Run, run)
        row.figures = row.figures.model_copy(update=counted)
        session.execute(update(Sample).values(trust="in-guest"))
    page = text_of(world.client.get(f"/runs/{run}"))
    assert "3 results could be forged; 1 passed." in page
    assert "Pass@First is 25 % and Pass@All 50 %" in page
    assert "3 results could be forged; 1 passed" in text_of(world.client.get("/runs"))
    assert "could be forged" in text_of(world.client.get(f"/runs/{run}/tasks/HumanEval/0"))
    assert "3 results could be forged; 1 passed" in text_of(world.client.get("/leaderboard"))
    other = world.add_run("another", limit=4, n=2)
    compared = text_of(world.client.get(f"/overlay/{other},{run}"))
    assert "B: 3 results could be forged; 1 passed." in compared


@pytest.mark.parametrize(
    ("number", "read"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (11, "11th"), (13, "13th"), (22, "22nd")]
)
def test_places_in_a_line_are_read_as_words(number, read):
    assert format_ordinal(number) == read


def test_a_task_that_stopped_before_its_budget_is_explained(world):
    page = text_of(world.client.get(f"/runs/{world.add_run('early')}?tab=timing"))
    assert re.search(r"Worst overrun .* past the budget of \d+ s; a round that would pass it is not started", page)


def test_the_config_tab_says_nothing_twice(world):
    run = world.add_run("said once")
    with world.context.database.session() as session:
        found = session.get(Run, run)
        found.prompt_mode, found.prompt_mode_used = "auto", "chat"
        found.provenance = {"target": found.target, "weights": found.weights, "dtype": "float32"}
    page = text_of(world.client.get(f"/runs/{run}?tab=config"))
    assert "Prompt mode auto (chat)" in page
    assert "Prompt mode used" not in page
    environment = page.partition("Environment ")[2].partition(" Files ")[0]
    assert environment.split() == ["dtype", "float32"]


def test_the_time_left_waits_for_more_than_one_task(world):
    for done, is_known in ((1, False), (3, True)):
        run = world.add_run(f"{done} done", state=RunState.RUNNING, done=done)
        page = text_of(world.client.get(f"/runs/{run}"))
        assert bool(re.search(r"about \S+ \S+ of decoding left", page)) == is_known
