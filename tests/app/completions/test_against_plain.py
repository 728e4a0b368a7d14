"""A completion against plain decoding: never decoded at once, and a page that concludes."""

from __future__ import annotations

import re
import threading

import pytest

from app.completions import against_plain, lanes
from app.completions import service as completions
from app.completions.against_plain import conclude
from app.completions.models import CompletionRun
from app.completions.schemas import CompletionSpec
from app.core.states import OPEN_RUN_STATES, RunKind, RunState
from app.jobs import reaper
from app.jobs.embedded import EmbeddedWorkers
from app.jobs.work.prepare import prepare_run
from app.runs import service
from app.runs.models import Run
from app.runs.repository import get_run
from app.site.factory import create_app
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
        return tuple(lanes.load_completion_view(session, run_id) for run_id in (a, b))


def submit(ctx, spec) -> tuple:
    """The ids of a completion and of plain decoding beside it."""
    first = against_plain.submit(ctx, spec)
    with ctx.database.read() as session:
        return first, against_plain.find_plain(session, first)


@pytest.fixture
def paced(ctx):
    """Engines by drafter: `none` takes four times as long."""
    engines = {"sibling": FakeEngine(), "none": FakeEngine(pace=4.0)}
    ctx.load_engine = lambda config, on_progress: engines[config.drafter]
    return engines


@pytest.mark.parametrize("option", ["prefix_cache", "earlier_answers"])
def test_neither_side_profits_from_the_other_but_a_lone_completion_may_from_earlier_ones(ctx, paced, option):
    with EmbeddedWorkers(ctx, "test"):
        ended(ctx, *submit(ctx, spec()))
        ended(ctx, completions.submit(ctx, spec(drafter="none")))
    assert [getattr(request, option) for request in paced["none"].requests] == [False, True]
    assert [getattr(request, option) for request in paced["sibling"].requests] == [False]


@pytest.mark.parametrize("test", ["", TEST])
def test_plain_begins_only_when_speculative_has_ended(ctx, paced, test):
    paced["sibling"].hold = threading.Event()
    with EmbeddedWorkers(ctx, "test"):
        a, b = submit(ctx, spec(test=test))
        assert paced["sibling"].started.wait(60)
        prepare_run(ctx, b)  # an early or repeated message
        reaper.enqueue_handed_over(ctx)
        assert state_of(ctx, b) is RunState.QUEUED
        assert not paced["none"].started.is_set()
        paced["sibling"].hold.set()
        ended(ctx, a, b)
    with ctx.database.read() as session:
        first, second = session.get(Run, a), session.get(Run, b)
        assert second.tasks[0].started_at >= first.finished_at
        assert (first.state, second.state) == (RunState.FINISHED, RunState.FINISHED)


def test_a_lost_message_does_not_hold_plain_for_good(ctx, paced):
    first, second = submit(ctx, spec())
    while ctx.broker.get(("exec.interactive",), 0.0):
        pass  # every message is lost, also the second side's
    with ctx.database.session() as session:
        session.get(Run, first).state = RunState.CANCELLED
    with EmbeddedWorkers(ctx, "test"):
        ended(ctx, second)
    assert state_of(ctx, second) is RunState.FINISHED


@pytest.mark.parametrize(
    ("plain_pace", "times"),
    [
        (4.0, "Speculative finished its first answer in 0.1 s, plain in 0.4 s: 4.0 times as fast."),
        (1.0, "Speculative finished its first answer in 0.1 s, plain in 0.1 s: about the same."),
        (
            0.5,
            "Speculative finished its first answer in 0.1 s, plain in 50 ms: speculation made it 2.0 times as slow "
            "here.",
        ),
    ],
    ids=["faster", "alike", "slower"],
)
def test_the_conclusion_says_how_many_times_as_fast_and_admits_what_is_not(ctx, paced, plain_pace, times):
    paced["none"].pace = plain_pace
    with EmbeddedWorkers(ctx, "test"):
        a, b = submit(ctx, spec())
        ended(ctx, a, b)
    page = create_app(ctx).test_client().get(f"/complete/{a}").text
    assert f"{times} Both wrote the same text; both pass the test." in page
    assert "an example, not a measurement" in page


def test_without_a_test_nobody_is_called_right(ctx, paced):
    with EmbeddedWorkers(ctx, "test"):
        a, b = submit(ctx, spec(test=""))
        ended(ctx, a, b)
    assert conclude(*sides(ctx, a, b)).endswith("Both wrote the same text.")


def test_texts_that_differ_are_said_to_change_the_times(world):
    a = world.add_run("one", limit=1, kind=RunKind.COMPLETION, skill=1)
    b = world.add_run("two", limit=1, kind=RunKind.COMPLETION, skill=1, drafter="none", raw="    return 1\n")
    assert "The two texts differ (" in conclude(*sides(world.context, a, b))


def test_a_budget_that_ends_before_an_answer_is_named(world):
    a = world.add_run("one", limit=1, kind=RunKind.COMPLETION, pace=0.1)
    b = world.add_run("two", limit=1, kind=RunKind.COMPLETION, drafter="none", pace=500)
    fast, slow = sides(world.context, a, b)
    assert conclude(fast, slow).endswith(", plain none within 10 s.")
    assert conclude(slow, fast).startswith("Plain finished its first answer in ")
    assert conclude(slow, slow) == "Neither finished an answer within 10 s."


def test_two_devices_give_no_result(world):
    a = world.add_run("one", limit=1, kind=RunKind.COMPLETION)
    b = world.add_run("two", limit=1, kind=RunKind.COMPLETION, drafter="none", device="CPU, 2 cores")
    assert conclude(*sides(world.context, a, b)).startswith("No result: the two were decoded on different")


def test_a_side_that_cannot_be_loaded_is_shown_so_and_the_other_kept(ctx, paced):
    def load(config, on_progress):
        if config.drafter == "none":
            raise OSError("No such file")
        return paced["sibling"]

    ctx.load_engine = load
    with EmbeddedWorkers(ctx, "test"):
        a, b = submit(ctx, spec())
        ended(ctx, a, b)
    page = create_app(ctx).test_client().get(f"/complete/{a}").text
    assert "No result: plain decoding failed." in page
    assert "smollm2-135m cannot be loaded: OSError: No such file" in page
    assert page.count("data-replay") == 2


def test_a_cancelled_race_never_begins_plain(ctx, paced):
    paced["sibling"].hold = threading.Event()
    client = create_app(ctx).test_client()
    with EmbeddedWorkers(ctx, "test"):
        a, b = submit(ctx, spec())
        assert paced["sibling"].started.wait(60)
        client.application.config["WTF_CSRF_ENABLED"] = False
        answer = client.post(f"/complete/{a}/cancel")
        assert answer.status_code == 303
        ended(ctx, a, b)
    assert (state_of(ctx, a), state_of(ctx, b)) == (RunState.CANCELLED, RunState.CANCELLED)
    assert paced["none"].requests == []
    page = client.get(f"/complete/{a}").text
    assert "No result: speculative decoding was cancelled." in page
    assert ">Cancel</button>" not in page


def test_a_completion_whose_plain_side_was_deleted_is_shown_alone(ctx, paced):
    with EmbeddedWorkers(ctx, "test"):
        a, b = submit(ctx, spec())
        ended(ctx, a, b)
    service.delete(ctx, b)
    answer = create_app(ctx).test_client().get(f"/complete/{a}")
    assert (answer.status_code, "Plain against speculative" in answer.text) == (200, False)


@pytest.mark.parametrize("box", [{}, {"against_plain": "true"}], ids=["alone", "against plain"])
def test_the_box_of_the_form_asks_for_plain_decoding(ctx, paced, box):
    client = create_app(ctx).test_client()
    client.application.config["WTF_CSRF_ENABLED"] = False
    answer = client.post(
        "/complete", data={"target": "smollm2-135m", "prompt": PROMPT, "n": "2", "budget_s": "5", **box}
    )
    assert answer.status_code == 303, answer.text
    address = answer.headers["Location"]
    with ctx.database.read() as session:
        drafters = sorted(run.drafter for run in session.query(CompletionRun))
    assert drafters == (["none", "sibling"] if box else ["sibling"])
    page = client.get(address).text
    assert ("Plain against speculative" in page) == bool(box)
    assert bool(re.search(r'name="against_plain"[^>]* checked', page)) == bool(box)


def test_a_race_from_a_form_without_a_drafter_takes_the_default_one(ctx, paced):
    with EmbeddedWorkers(ctx, "test"):
        a, b = submit(ctx, spec(drafter="none"))
        ended(ctx, a, b)
    with ctx.database.read() as session:
        assert [get_run(session, run_id).drafter for run_id in (a, b)] == ["sibling", "none"]


def test_the_replay_holds_each_token_and_nothing_that_acts(world):
    hostile = "x = '</script><b>'\u202e\x1b[31m"
    run_id = world.add_run("one", limit=1, n=2, kind=RunKind.COMPLETION, raw=hostile)
    page = world.client.get(f"/complete/{run_id}").text
    assert "</script><b>" not in page
    assert "\u202e" not in page
    assert "\x1b" not in page
    with world.context.database.read() as session:
        stored = lanes.load_completion_view(session, run_id).lanes[0].replay
    assert len("".join(text for _, text in stored["tokens"])) == len(hostile)
    assert len(stored["tokens"]) > 1
