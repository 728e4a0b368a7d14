"""While `bassline serve` has the database, commands hand their runs to it and report them as if they were their own."""

from __future__ import annotations

import json
import signal
import threading
from dataclasses import replace

import pytest
from click.testing import CliRunner

from app.cli.foreground import ExecutionSite, prepare_for_server
from app.cli.main import cli
from app.core.context import Context
from app.core.db.database import Database
from app.core.errors import BadInputError, UnavailableError
from app.core.events.bus import MemoryBus
from app.core.states import RunKind, RunState
from app.jobs.embedded import EmbeddedWorkers
from app.runs import service
from app.runs.repository import list_runs
from app.runs.schemas import RunSpec
from tests.fakes import RIGHT, FakeGrader
from tests.integration.waiting import wait_for

EVAL = ("eval", "--target", "smollm2-135m", "--dataset", "additions", "--n", "2", "--budget", "5")


@pytest.fixture
def server(ctx, additions):
    """A server running on the database."""
    with EmbeddedWorkers(ctx, "serve"):
        yield ctx


@pytest.fixture
def other(ctx):
    """The context of another process on the same database: its own connections and stream, and no engine."""

    def no_engine(config, on_progress):
        raise AssertionError("decoded in the command's own process")

    made = Context(
        ctx.settings,
        Database(ctx.settings.effective_database_url),
        MemoryBus(),
        load_engine=no_engine,
        make_grader=FakeGrader,
    )
    made.worker_name = "elsewhere:1"
    yield made
    made.database.dispose()


@pytest.fixture
def bassline(other, monkeypatch):
    monkeypatch.setattr("app.cli.common.make_context", lambda: other)
    return lambda *words, **more: CliRunner().invoke(cli, [str(w) for w in words], **more)


@pytest.mark.usefixtures("server")
def test_eval_hands_its_run_to_the_server_and_reports_it(bassline):
    result = bassline(*EVAL, "--name", "handed", "--time-limit", "60", "--json", "-")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert (document["run"]["state"], document["run"]["time_limit_s"]) == ("finished", 60.0)
    assert document["figures"]["pass_first"] == 1.0
    assert document == json.loads(bassline("runs", "show", "handed", "--json", "-").stdout)
    assert "`bassline serve` owns this database" in result.stderr
    assert "task 3 of 3" in result.stderr
    assert "Pass@First" in result.stderr


@pytest.mark.usefixtures("server")
def test_compare_plain_works_there_too(bassline):
    result = bassline(*EVAL, "--compare-plain", "2", "--json", "-")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["figures"]["speedup_tasks"] == 2


@pytest.mark.usefixtures("server")
def test_import_and_complete_are_handed_over(bassline, tmp_path):
    file = tmp_path / "samples.jsonl"
    file.write_text("\n".join(json.dumps({"task_id": f"add/{i}", "completion": RIGHT}) for i in range(3)))
    imported = bassline("runs", "import", file, "--target", "elsewhere", "--dataset", "additions")
    assert imported.exit_code == 0, imported.output
    assert "100 %" in imported.stdout
    prompt = tmp_path / "prompt.py"
    prompt.write_text("def add(a, b):\n")
    completed = bassline("complete", prompt, "--target", "smollm2-135m", "--n", "2")
    assert completed.exit_code == 0, completed.output
    assert completed.stdout.count("return a ") == 2


def test_a_run_that_fails_there_fails_here(server, bassline):
    def broken(config, on_progress):
        raise OSError("No such file")

    server.load_engine = broken
    result = bassline(*EVAL)
    assert result.exit_code == 1
    assert "smollm2-135m cannot be loaded: OSError: No such file" in result.stderr


@pytest.fixture
def interrupted(server, engine, bassline):
    """Runs eval and presses Ctrl-C while the server decodes."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def run():
        engine.hold = threading.Event()
        main = threading.main_thread().ident

        def press():
            assert engine.started.wait(60)
            signal.pthread_kill(main, signal.SIGINT)

        threading.Thread(target=press).start()
        return bassline(*EVAL, "--name", "halted")

    yield run
    signal.signal(signal.SIGINT, before)


def run_state(ctx, name: str) -> RunState:
    with ctx.database.read() as session:
        return next(run.state for run in list_runs(session) if run.name == name)


def test_ctrl_c_leaves_the_run_to_the_server_and_says_so(interrupted, server, engine):
    result = interrupted()
    assert result.exit_code == 1
    assert "the server continues the run" in result.stderr
    engine.hold.set()
    wait_for(lambda: run_state(server, "halted") is RunState.FINISHED)


def test_a_server_that_stops_is_noticed(ctx, other, spec, engine):
    engine.hold = threading.Event()
    with EmbeddedWorkers(ctx, "serve"):
        run_id = service.submit(other, spec(), handover=True)
        assert engine.started.wait(60)
    with pytest.raises(UnavailableError, match="has stopped: the run continues when it starts again"):
        ExecutionSite(other, server=True).wait_for_run(run_id)


def test_a_run_left_behind_by_a_command_is_worked_at_the_next_start(ctx, other, spec):
    run_id = service.submit(other, spec(), handover=True)
    with EmbeddedWorkers(ctx, "serve"):
        wait_for(lambda: run_state(ctx, spec().name or service.build_default_name(spec())) is RunState.FINISHED)
    with ctx.database.read() as session:
        assert [(run.id, run.kind) for run in list_runs(session)] == [(run_id, RunKind.EVAL)]


def test_a_folder_is_named_so_that_the_server_finds_it_and_a_remote_endpoint_needs_its_leave(
    other, tmp_path, monkeypatch
):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    spec = prepare_for_server(other, RunSpec(target="./mine", drafter="sibling+./mine"))
    assert (spec.target, spec.drafter) == (str(tmp_path / "mine"), f"sibling+{tmp_path / 'mine'}")
    assert prepare_for_server(other, RunSpec(target="smollm2-135m")).target == "smollm2-135m"
    remote = RunSpec(target="openai:m@http://localhost:1/v1")
    with pytest.raises(BadInputError, match="BASSLINE_REMOTE_ENDPOINTS"):
        prepare_for_server(other, remote)
    allowed = other.settings.model_copy(update={"remote_endpoints": "http://localhost:1/v1"})
    assert prepare_for_server(replace(other, settings=allowed), remote) == remote
