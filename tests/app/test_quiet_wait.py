"""Measuring waits for a quiet machine: it says why, lets others go first, and goes on when it is quiet or late."""

from __future__ import annotations

import json
import re
import uuid

import pytest
from click.testing import CliRunner

from app.cli.main import cli
from app.cli.options import QuietChoice
from app.completions import service as completions
from app.completions.schemas import CompletionSpec
from app.core.broker import turns
from app.core.context import Context
from app.core.db.database import Database
from app.core.events import event_types
from app.core.events.bus import BEFORE_FIRST, MemoryBus
from app.core.states import OPEN_RUN_STATES, RunState
from app.jobs.embedded import EmbeddedWorkers
from app.jobs.work import quiet_wait
from app.jobs.work.machine_use import MachineUse
from app.runs import service
from app.runs.quiet import QUIET_LIMIT_S, QuietWait, describe_quiet_wait, parse_quiet_wait
from app.runs.repository import get_run
from app.site.factory import create_app
from app.studies import service as studies
from app.studies.repository import get_study
from app.studies.schemas import StudySpec
from tests.busy_loops import busy_loops
from tests.fakes import FakeGrader
from tests.integration.waiting import wait_for
from tests.thorough import thorough

SAYS = re.compile(r"Waiting for a quiet machine: other programs use \d+ % \(limit 5 %\); \d+ (min( \d+ s)?|s) left")
BUSY = MachineUse(capacity_s=1.0, others_cpu_s=0.38, steal_s=0.0, load_average=2.0)


def _busy_window(ctx):
    ctx.stopping.wait(0.02)
    return BUSY


@pytest.fixture
def always_busy(monkeypatch):
    monkeypatch.setattr(quiet_wait, "_measure", _busy_window)


def row(ctx, run_id):
    with ctx.database.read() as session:
        return get_run(session, run_id)


def waiting(ctx, run_id):
    return describe_quiet_wait([row(ctx, run_id)])


def ended(ctx, run_id):
    return lambda: row(ctx, run_id).state not in OPEN_RUN_STATES


@pytest.mark.slow
def test_a_run_waits_beside_a_busy_loop_and_goes_on_when_it_ends(ctx, spec, engine, monkeypatch):
    with busy_loops() as loops, EmbeddedWorkers(ctx, "test"):
        monkeypatch.setattr(quiet_wait, "_measure", loops.measure)
        run_id = service.submit(ctx, spec(quiet_limit_s=600))
        wait_for(lambda: waiting(ctx, run_id))
        assert SAYS.fullmatch(waiting(ctx, run_id)), waiting(ctx, run_id)
        assert engine.requests == []
        client = create_app(ctx).test_client()
        assert client.get(f"/api/v1/runs/{run_id}").json["progress"]["waiting"] == waiting(ctx, run_id)
        assert "Waiting for a quiet machine" in client.get(f"/runs/{run_id}").text
        loops.stop()
        wait_for(ended(ctx, run_id))
    wait = parse_quiet_wait(row(ctx, run_id).quiet)
    assert row(ctx, run_id).state is RunState.FINISHED
    assert len(engine.requests) == 3
    assert (wait.lost, wait.waited_s > 0, wait.waited_s < 600) == (None, True, True)
    said = [e.data["message"] for e in ctx.bus.read(run_id, BEFORE_FIRST, 0.0) if e.type == event_types.LOADING]
    assert said
    assert all(map(SAYS.fullmatch, said))


@pytest.mark.slow
def test_at_the_limit_it_goes_on_and_the_run_is_marked(ctx, spec, engine):
    decode = engine.generate
    with busy_loops() as loops:

        def slowly(*request):
            until = loops.burnt() + 0.3
            wait_for(lambda: loops.burnt() >= until, 60)
            return decode(*request)

        engine.generate = slowly
        with EmbeddedWorkers(ctx, "test"):
            run_id = service.submit(ctx, spec(quiet_limit_s=1))
            wait_for(ended(ctx, run_id), 120)
    assert parse_quiet_wait(row(ctx, run_id).quiet) == QuietWait(1.0, 1.0)  # in all: not for each of its tasks
    assert row(ctx, run_id).figures.tasks == 3
    assert any(mark.startswith("In 3 of 3 tasks ") for mark in row(ctx, run_id).figures.clock_marks)


def test_a_run_that_did_not_ask_for_it_does_not_wait(ctx, spec, engine, always_busy):
    with EmbeddedWorkers(ctx, "test"):
        run_id = service.submit(ctx, spec())
        wait_for(ended(ctx, run_id))
    assert (row(ctx, run_id).quiet, len(engine.requests)) == (None, 3)


@pytest.mark.usefixtures("always_busy")
def test_a_completion_is_decoded_while_a_run_waits(ctx, spec, engine):
    with EmbeddedWorkers(ctx, "test"):
        run_id = service.submit(ctx, spec(quiet_limit_s=600))
        wait_for(lambda: waiting(ctx, run_id))
        asked = completions.submit(ctx, CompletionSpec(target="smollm2-135m", prompt="def f():", n=1))
        wait_for(ended(ctx, asked))
        assert len(engine.requests) == 1
        service.cancel(ctx, run_id)
        wait_for(ended(ctx, run_id))
    assert row(ctx, asked).state is RunState.FINISHED
    assert row(ctx, run_id).state is RunState.CANCELLED
    with ctx.database.read() as session:
        assert max(task.attempt for task in get_run(session, run_id).tasks) <= 1  # giving way costs no attempt


@pytest.mark.usefixtures("always_busy")
def test_a_run_that_waits_for_a_turn_lets_another_run_go_first(ctx, spec, monkeypatch):
    monkeypatch.setattr(turns, "TURN_S", 0.05)
    with EmbeddedWorkers(ctx, "test"):
        first = service.submit(ctx, spec(quiet_limit_s=600))
        wait_for(lambda: waiting(ctx, first))
        other = service.submit(ctx, spec())
        wait_for(ended(ctx, other))
        assert row(ctx, first).state is RunState.RUNNING
        service.cancel(ctx, first)
        wait_for(ended(ctx, first))


def study_of(ctx, additions, **more):
    arms = [{"target": "smollm2-135m", "n": n} for n in (1, 2)]
    return studies.submit(ctx, StudySpec(dataset=additions, budget_s=5, arms=arms, **more))


def study(ctx, study_id):
    with ctx.database.read() as session:
        return get_study(session, study_id)


@pytest.mark.usefixtures("always_busy")
def test_the_arms_of_a_study_wait_no_longer_than_its_limit_together(ctx, additions, engine):
    with EmbeddedWorkers(ctx, "test"):
        study_id = study_of(ctx, additions, quiet_limit_s=0.5)
        wait_for(lambda: study(ctx, study_id).state not in OPEN_RUN_STATES, 120)
    waits = [parse_quiet_wait(run.quiet) for run in study(ctx, study_id).runs]
    assert study(ctx, study_id).state is RunState.FINISHED
    assert len(engine.requests) == 6
    assert sum(wait.waited_s for wait in waits) == pytest.approx(0.5)
    assert [wait.limit_s for wait in waits] == [0.5, 0.5]


def test_a_resumed_study_may_wait_as_long_again_or_no_longer(ctx, additions):
    study_id = study_of(ctx, additions, quiet_limit_s=60)
    studies.interrupt(ctx, study_id, "stopped")
    with ctx.database.session() as session:
        for run in get_study(session, study_id).runs:
            run.quiet = QuietWait(60.0, 60.0).to_json()
    studies.resume(ctx, study_id)
    assert [parse_quiet_wait(run.quiet) for run in study(ctx, study_id).runs] == [QuietWait(60.0)] * 2
    studies.set_quiet_limit(ctx, study_id, None)
    assert [run.quiet for run in study(ctx, study_id).runs] == [None, None]


@pytest.mark.usefixtures("always_busy")
def test_the_page_of_a_study_and_its_document_say_why_it_waits(ctx, additions):
    client = create_app(ctx).test_client()
    with EmbeddedWorkers(ctx, "test"):
        study_id = study_of(ctx, additions, quiet_limit_s=600)
        wait_for(lambda: describe_quiet_wait(study(ctx, study_id).runs))
        said = client.get(f"/api/v1/studies/{study_id}").json["study"]["waiting"]
        assert SAYS.fullmatch(said)
        assert "Waiting for a quiet machine: other programs use 38 %" in client.get(f"/studies/{study_id}").text
        studies.cancel(ctx, study_id)
        wait_for(lambda: study(ctx, study_id).state not in OPEN_RUN_STATES, 120)
    assert client.get(f"/api/v1/studies/{study_id}").json["study"]["waiting"] is None


def test_a_study_started_on_the_page_waits_unless_its_box_is_cleared(world):
    world.app.config["WTF_CSRF_ENABLED"] = False
    page = world.client.get("/studies/new").text
    assert re.search(r'name="wait_for_quiet"[^>]* checked', page)
    values = {"preset": "bass", "target": "smollm2-135m", "limit": "4"}
    limits = []
    for more in ({"wait_for_quiet": "true"}, {}):
        answer = world.client.post("/studies/new", data=values | more)
        runs = study(world.context, uuid.UUID(answer.location.rsplit("/", 1)[1])).runs
        limits.append({wait.limit_s if (wait := parse_quiet_wait(run.quiet)) else None for run in runs})
    assert limits == [{QUIET_LIMIT_S}, {None}]


EVAL = ("eval", "--target", "smollm2-135m", "--dataset", "additions", "--n", "2", "--budget", "5")
STUDY = ("study", "run", "--target", "smollm2-135m", "--n", "1,2", "--dataset", "additions", "--budget", "5")


@pytest.mark.usefixtures("always_busy", "additions")
@pytest.mark.parametrize("words", [thorough((*EVAL, "--wait-for-quiet")), STUDY], ids=["eval", "study run"])
def test_a_command_says_on_stderr_why_it_waits(bassline, words, monkeypatch):
    monkeypatch.setattr("app.cli.live_progress.BEAT_S", 0.02)
    result = bassline(*words, "--quiet-limit", "2")
    assert result.exit_code == 0, result.output
    assert SAYS.search(result.stderr), result.stderr
    assert "Waiting" not in result.stdout


@pytest.mark.usefixtures("always_busy", "additions")
def test_elsewhere_than_on_a_terminal_a_command_does_not_wait(bassline, tmp_path):
    for words in (EVAL, STUDY, (*STUDY, "--name", "again", "--no-wait-for-quiet")):
        result = bassline(*words, "--json", tmp_path / "out.json")
        assert result.exit_code == 0, result.output
        assert "Waiting" not in result.stderr


@pytest.mark.usefixtures("always_busy", "additions")
def test_a_command_says_why_the_server_waits_to_which_it_handed_its_run(ctx, bassline, monkeypatch):
    other = Context(ctx.settings, Database(ctx.settings.effective_database_url), MemoryBus(), make_grader=FakeGrader)
    other.worker_name = "elsewhere:1"
    with EmbeddedWorkers(ctx, "serve"):
        monkeypatch.setattr("app.cli.common.make_context", lambda: other)
        monkeypatch.setattr("app.cli.live_progress.BEAT_S", 0.02)
        result = CliRunner().invoke(cli, [*EVAL, "--quiet-limit", "2"])
    other.database.dispose()
    assert result.exit_code == 0, result.output
    assert "Waiting for a quiet machine: other programs use 38 %" in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--throughput", "--quiet-limit", "9"), "a clock on this machine: leave it out for a run for throughput"),
        (("--no-wait-for-quiet", "--quiet-limit", "9"), "--quiet-limit is for --wait-for-quiet: leave one of them out"),
        (("--quiet-limit", "0"), "--quiet-limit is 0.0: give a number above 0"),
    ],
)
@pytest.mark.usefixtures("additions")
def test_options_that_contradict_each_other_are_refused(bassline, words, said):
    result = bassline(*EVAL, *words)
    assert result.exit_code == 2, result.output
    assert said in result.output


def test_what_a_study_file_says_holds_unless_the_command_says_otherwise(monkeypatch):
    assert QuietChoice(None, None).get_limit_s(60.0) == 60.0
    assert QuietChoice(True, None).get_limit_s(60.0) == 60.0
    assert QuietChoice(False, None).get_limit_s(60.0) is None
    assert QuietChoice(None, 5.0).get_limit_s(60.0) == 5.0
    assert QuietChoice(None, None).get_limit_s() is None
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert QuietChoice(None, None).get_limit_s() == QUIET_LIMIT_S


def test_the_arm_on_another_machine_waits_for_nothing():
    arms = [{"target": "openai:m@http://127.0.0.1:1/v1", "n": 1}, {"target": "smollm2-135m", "n": 1}]
    spec = StudySpec(arms=arms, quiet_limit_s=9)
    assert [one.quiet_limit_s for one in spec.build_run_specs()] == [None, 9.0]


def test_a_study_repeats_itself_with_its_limit(ctx, additions):
    study_id = study_of(ctx, additions, quiet_limit_s=60)
    command = study(ctx, study_id).command
    assert json.dumps(60.0) in command
    assert "quiet_limit_s" in command
