"""A race: two completions of one prompt, never decoded at once, and a page that says what each had when."""

from __future__ import annotations

import re
import threading
import uuid

import pytest

from app.completions import forms, race, replay
from app.completions import service as completions
from app.completions.schemas import CompletionSpec
from app.factory import create_app
from app.jobs import reaper
from app.jobs.embedded import Embedded
from app.jobs.work.prepare import prepare_run
from app.runs import service
from app.runs.models import Run
from app.runs.repository import get_run
from app.states import OPEN_RUN_STATES, RunKind, RunState
from tests.fakes import FakeEngine
from tests.integration.waiting import wait_for

PROMPT = "def add(a, b):\n"
TEST = "assert add(1, 2) == 3\n"


def spec(**changes) -> CompletionSpec:
    return CompletionSpec(
        **{"target": "smollm2-135m", "prompt": PROMPT, "test": TEST, "n": 2, "budget_s": 5, **changes}
    )


def state_of(ctx, run_id) -> RunState:
    with ctx.database.read() as session:
        return get_run(session, run_id).state


def ended(ctx, *run_ids) -> None:
    wait_for(lambda: all(state_of(ctx, run_id) not in OPEN_RUN_STATES for run_id in run_ids))


def sides(ctx, a, b):
    with ctx.database.read() as session:
        return race.load(session, a, b)


@pytest.fixture
def paced(ctx):
    """Engines by drafter: `none` takes four times as long."""
    engines = {"sibling": FakeEngine(), "none": FakeEngine(pace=4.0)}
    ctx.load_engine = lambda config, on_progress: engines[config.drafter]
    return engines


@pytest.mark.parametrize("option", ["prefix_cache", "earlier_answers"])
def test_neither_side_profits_from_the_other_but_a_lone_completion_may_from_earlier_ones(ctx, paced, option):
    with Embedded(ctx, "test"):
        ended(ctx, *race.submit(ctx, spec(drafter="none"), spec(drafter="sibling")))
        ended(ctx, completions.submit(ctx, spec(drafter="none")))
    assert [getattr(request, option) for request in paced["none"].requests] == [False, True]
    assert [getattr(request, option) for request in paced["sibling"].requests] == [False]


@pytest.mark.parametrize("test", ["", TEST])
def test_b_begins_only_when_a_has_ended(ctx, paced, test):
    paced["none"].hold = threading.Event()
    with Embedded(ctx, "test"):
        a, b = race.submit(ctx, spec(drafter="none", test=test), spec(drafter="sibling", test=test))
        assert paced["none"].started.wait(20)
        prepare_run(ctx, b)  # an early or repeated message
        reaper.enqueue_handed_over(ctx)
        assert state_of(ctx, b) is RunState.QUEUED
        assert not paced["sibling"].started.is_set()
        paced["none"].hold.set()
        ended(ctx, a, b)
    with ctx.database.read() as session:
        first, second = session.get(Run, a), session.get(Run, b)
        assert second.tasks[0].started_at >= first.finished_at
        assert (first.state, second.state) == (RunState.FINISHED, RunState.FINISHED)


def test_a_lost_message_does_not_hold_b_for_good(ctx, paced):
    first, second = race.submit(ctx, spec(), spec(drafter="none"))
    while ctx.broker.get(("exec.interactive",), 0.0):
        pass  # every message is lost, also that for B
    with ctx.database.session() as session:
        session.get(Run, first).state = RunState.CANCELLED
    with Embedded(ctx, "test"):
        ended(ctx, second)
    assert state_of(ctx, second) is RunState.FINISHED


def test_who_was_first_and_who_was_right_first(ctx, paced):
    with Embedded(ctx, "test"):
        a, b = race.submit(ctx, spec(drafter="none"), spec(drafter="sibling"))
        ended(ctx, a, b)
    said = replay.answer(*sides(ctx, a, b))
    assert said == "B had its first right answer after 0.1 s, A after 0.4 s."
    page = create_app(ctx).test_client().get(f"/complete/race/{a}/{b}").text
    assert said in page
    assert "An example, not a measurement" in page
    assert "First right answer" in page
    times = [at for at, _ in replay.moments(*sides(ctx, a, b))]
    assert times == sorted(times)


def test_without_a_test_nobody_is_called_right(ctx, paced):
    with Embedded(ctx, "test"):
        a, b = race.submit(ctx, spec(test=""), spec(test="", drafter="none"))
        ended(ctx, a, b)
    said = replay.answer(*sides(ctx, a, b))
    assert said.startswith("A finished its first sample after 0.1 s, B after 0.4 s.")
    assert "nobody knows" in said
    assert "right answer" not in create_app(ctx).test_client().get(f"/complete/race/{a}/{b}").text


def test_a_side_that_cannot_be_loaded_is_shown_so_and_the_other_kept(ctx, paced):
    def load(config, on_progress):
        if config.drafter == "none":
            raise OSError("No such file")
        return paced["sibling"]

    ctx.load_engine = load
    with Embedded(ctx, "test"):
        a, b = race.submit(ctx, spec(), spec(drafter="none"))
        ended(ctx, a, b)
    assert replay.answer(*sides(ctx, a, b)).startswith("A had its first right answer after 0.1 s; B failed.")
    page = create_app(ctx).test_client().get(f"/complete/race/{a}/{b}").text
    assert "smollm2-135m cannot be loaded: OSError: No such file" in page
    assert page.count("data-replay") == 2


def test_a_cancelled_race_never_begins_b(ctx, paced):
    paced["sibling"].hold = threading.Event()
    client = create_app(ctx).test_client()
    with Embedded(ctx, "test"):
        a, b = race.submit(ctx, spec(), spec(drafter="none"))
        assert paced["sibling"].started.wait(20)
        client.application.config["WTF_CSRF_ENABLED"] = False
        answer = client.post(f"/complete/race/{a}/{b}/cancel")
        assert answer.status_code == 303
        ended(ctx, a, b)
    assert (state_of(ctx, a), state_of(ctx, b)) == (RunState.CANCELLED, RunState.CANCELLED)
    assert paced["none"].requests == []
    page = client.get(f"/complete/race/{a}/{b}").text
    assert "Cancelled." in page
    assert "Cancel the race" not in page


def test_a_deleted_side_is_named_and_two_deleted_sides_are_not_found(ctx, paced):
    client = create_app(ctx).test_client()
    with Embedded(ctx, "test"):
        a, b = race.submit(ctx, spec(), spec(drafter="none"))
        ended(ctx, a, b)
    service.delete(ctx, a)
    page = client.get(f"/complete/race/{a}/{b}")
    assert page.status_code == 200
    assert "A has been deleted." in page.text
    assert "B had its first right answer after 0.4 s; A has been deleted." in page.text
    service.delete(ctx, b)
    gone = client.get(f"/complete/race/{a}/{b}")
    assert gone.status_code == 404
    assert "both completions of this race have been deleted" in gone.text.lower()


def test_two_prompts_are_no_race(ctx, paced):
    with Embedded(ctx, "test"):
        a, b = race.submit(ctx, spec(), spec(prompt="def sub(a, b):\n", test=""))
        ended(ctx, a, b)
    answer = create_app(ctx).test_client().get(f"/complete/race/{a}/{b}")
    assert answer.status_code == 422
    assert "race two configurations on one prompt" in answer.text


def test_an_evaluation_run_is_no_side(world):
    run_id = world.add_run("eval")
    answer = world.client.get(f"/complete/race/{run_id}/{uuid.uuid4()}")
    assert answer.status_code == 404
    assert "is not a completion" in answer.text


def test_b_has_the_values_of_a_where_its_fields_are_empty():
    form = {**forms.values(), "n": "3", "budget_s": "4", "b_drafter": "none", "b_n": "", "b_temperature": "0.9"}
    (a, b), errors = forms.parse_race(form, lambda _spec: None)
    assert errors == {}
    assert (a.n, b.n, b.budget_s) == (3, 3, 4.0)
    assert (b.drafter, b.temperature) == ("none", 0.9)
    assert b.model_copy(update={"drafter": a.drafter, "temperature": a.temperature}) == a


def test_every_wrong_field_is_named_with_its_side():
    form = {**forms.values(), "n": "0", "b_n": "many", "b_draft_length": "fixed:x", "budget_s": "-1"}
    specs, errors = forms.parse_race(form, lambda _spec: None)
    assert specs is None
    assert set(errors) == {"n", "budget_s", "b_n", "b_draft_length"}


def test_b_differs_in_one_setting_by_default():
    for drafter, other in (("sibling", "none"), ("none", "sibling")):
        values = forms.second_values({**forms.values(), "drafter": drafter})
        assert {name: value for name, value in values.items() if value} == {"b_drafter": other}


def test_a_race_can_be_started_again_with_its_settings(ctx, paced):
    client = create_app(ctx).test_client()
    with Embedded(ctx, "test"):
        a, b = race.submit(ctx, spec(), spec(drafter="none", n=3))
        ended(ctx, a, b)
    page = client.get(f"/complete/race?a={a}&b={b}").text
    assert 'name="b_n" type="text" value="3"' in page
    assert re.search(r'name="b_drafter".*?<option value="none" selected', page, re.DOTALL)
    assert 'name="b_temperature" type="text" value=""' in page
    assert client.get("/complete/race?a=x").status_code == 422


def test_the_replay_holds_each_token_and_nothing_that_acts(world):
    hostile = "x = '</script><b>'\u202e\x1b[31m"
    a = world.add_run("one", limit=1, n=2, kind=RunKind.COMPLETION, raw=hostile)
    b = world.add_run("two", limit=1, n=1, kind=RunKind.COMPLETION, raw=hostile)
    page = world.client.get(f"/complete/race/{a}/{b}").text
    assert "</script><b>" not in page
    assert "\u202e" not in page
    assert "\x1b" not in page
    with world.context.database.read() as session:
        side, _ = race.load(session, a, b)
        stored = replay.sample_replay(side, side.samples[0])
    assert len("".join(text for _, text in stored["tokens"])) == len(hostile)
    assert len(stored["tokens"]) > 1
