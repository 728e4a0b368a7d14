"""`bassline study` end to end over the fakes: the answer out, one sentence and the right exit code for bad input."""

from __future__ import annotations

import csv
import io
import json
import signal
import threading
import uuid

import pytest
from rich.console import Console

from app.cli import live_progress, progress
from app.cli.foreground import prepare_study_for_server
from app.core.errors import BadInputError
from app.core.states import TaskState
from app.jobs.embedded import EmbeddedWorkers
from app.studies.repository import get_study
from app.studies.schemas import StudySpec
from evaluation.studies.analysis import list_study_budgets
from tests.app.studies.conftest import GRID
from tests.integration.waiting import wait_for

pytestmark = pytest.mark.slow

TOML = """
[study]
dataset = "additions"
budget_s = 5
limit = 2
name = "from a file"

[[arms]]
target = "smollm2-135m"
n = 1

[[arms]]
name = "wide"
target = "smollm2-135m"
n = 3
"""


@pytest.fixture
def _ctrl_c():
    """A shell ignores Ctrl-C for what it runs in the background, this suite perhaps."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_run_writes_the_document_of_the_contract(ended):
    assert {"id", "name", "state", "dataset", "tasks_common", "device"} <= set(ended["study"])
    assert (ended["study"]["state"], ended["study"]["tasks_common"]) == ("finished", 3)
    assert {"name", "run_id", "configuration", "tasks", "dropped_at"} <= set(ended["arms"][0])
    assert [(a["configuration"]["drafter"], a["configuration"]["n"]) for a in ended["arms"]] == [
        ("none", 1), ("none", 2), ("sibling", 1), ("sibling", 2)
    ]  # fmt: skip
    assert [arm["tasks"] for arm in ended["arms"]] == [3, 3, 3, 3]
    assert {
        "arm",
        "pass_first",
        "interval",
        "use",
        "verdict",
        "margin",
        "difference",
        "difference_interval",
        "against",
        "tasks_to_decide",
        "cheaper",
    } <= set(ended["answer"][0])
    assert len(ended["paper_table"]) == 4
    assert [family["ns"] for family in ended["samples"]] == [[1, 2], [1, 2]]
    assert len(ended["speculation"]) == 2
    assert [one["budget_s"] for one in ended["answer"]] == [1.0, 2.0, 3.0, 5.0]
    assert ended["sentence"].startswith("On 3 tasks within 5 s ")


def test_show_says_the_same_and_answers_at_a_budget(ended, bassline):
    assert json.loads(bassline("study", "show", "which", "--json", "-").stdout) == ended
    shown = bassline("study", "show", "which", "--budget", "3").stdout
    for words in (ended["sentence"], "On 3 tasks within 3 s ", "One more second: 0 points", "Speed-up",
                  "enough", "What speculation gains", ended["arms"][0]["run_id"]):  # fmt: skip
        assert words in shown
    at = json.loads(bassline("study", "show", "which", "--budget", "0.15", "--json", "-").stdout)["at_budget"]
    assert (at["budget_s"], at["pass_first"]) == (0.15, 1.0)
    assert bassline("study", "show", "which", "--budget", "0").exit_code == 2


def test_list_export_and_delete(ended, bassline, tmp_path):
    (listed,) = json.loads(bassline("study", "list", "--json", "-").stdout)
    assert listed["study"]["id"] == ended["study"]["id"]
    assert "12/12" in bassline("study", "list").stdout
    assert json.loads(bassline("study", "export", "which").stdout) == {**ended, "at_budget": None}
    rows = list(csv.DictReader(io.StringIO(bassline("study", "export", "which", "--format", "csv").stdout)))
    assert {float(row["budget_s"]) for row in rows} >= set(list_study_budgets(5.0))
    assert {rows[0]["arm"], rows[0]["n"], rows[0]["pass_first"]} == {ended["arms"][0]["name"], "1", "1.0"}
    file = tmp_path / "report.md"
    assert bassline("study", "export", "which", "--format", "markdown", "-o", file).exit_code == 0
    assert "| smollm2-135m, none, n = 1 | regular decoding |" in file.read_text()
    refused = bassline("study", "export", "which", "--format", "archive")
    assert (refused.exit_code, "--output FILE" in refused.stderr) == (2, True)
    assert bassline("runs", "delete", ended["arms"][0]["run_id"]).exit_code == 1
    assert bassline("study", "delete", "which").exit_code == 0
    assert json.loads(bassline("runs", "list", "--json", "-").stdout) == []


def test_on_a_terminal_every_arm_has_a_bar(ended, ctx, monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(progress, "open_stderr", lambda: Console(file=screen, force_terminal=True, width=120))
    live_progress.follow_study(ctx, uuid.UUID(ended["study"]["id"]), None)
    for arm in ended["arms"]:
        assert f"{arm['name']}" in screen.getvalue()
    assert "12 of 12" in screen.getvalue()


def test_failed_and_skipped_tasks_are_ended_in_the_progress(ended, ctx):
    study_id = uuid.UUID(ended["study"]["id"])
    with ctx.database.session() as session:
        run = get_study(session, study_id).runs[0]
        run.tasks[0].state, run.tasks[1].state = TaskState.FAILED, TaskState.SKIPPED
        run_id = run.id
    with ctx.database.read() as session:
        shown = live_progress._read_study(session, study_id, ()), live_progress._read_run(ctx, session, run_id, ())
    assert {(part.done, part.total) for snapshot in shown for part in snapshot.parts} == {(3, 3)}


def test_a_file_describes_a_study_and_options_of_the_study_override_it(bassline, additions, tmp_path):
    file = tmp_path / "arms.toml"
    file.write_text(TOML)
    result = bassline("study", "run", file, "--limit", "1", "--json", "-")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["study"]["name"], found["study"]["budget_s"]) == ("from a file", 5.0)
    assert [(arm["name"], arm["n_tasks"]) for arm in found["arms"]] == [
        ("smollm2-135m, sibling, n = 1", 1), ("wide", 1)
    ]  # fmt: skip
    assert "wide: task 1 of 1" in result.stderr


def test_a_preset_multiplies_with_the_values_of_other_options(bassline, additions):
    result = bassline("study", "run", "--preset", "samples", "--target", "smollm2-135m", "--dataset", "additions",
                      "--limit", "1", "--temperature", "0.2,0.8", "--json", "-")  # fmt: skip
    assert result.exit_code == 0, result.output
    arms = [arm["configuration"] for arm in json.loads(result.stdout)["arms"]]
    assert [(arm["n"], arm["temperature"]) for arm in arms] == [(n, t) for n in (1, 2, 4, 8, 16) for t in (0.2, 0.8)]


def test_what_a_grid_leaves_out_is_said(bassline, additions):
    result = bassline("study", "run", *GRID[:4], "--drafter", "none,sibling", "--draft-length", "bass,goodput",
                      "--limit", "1", "--json", "-")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert len(json.loads(result.stdout)["arms"]) == 3
    left_out = "drafter none, draft length goodput is left out: it decodes as drafter none, draft length bass does"
    assert left_out in result.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--n", "1"], "one arm is not a study"),
        (["--n", "0,4"], "--n is 0: "),
        (["--n", "1,,4"], "has an empty place"),
        (["--n", "1,x"], "'x' is not a valid integer"),
        (["--drafter", "none,siblng"], "--drafter is 'siblng': did you mean sibling?"),
        (["--target", "smollm2-135m,gpt-9"], "arm 2 (gpt-9, sibling, n = 8): model 'gpt-9' is not known"),
        (["--n", "1,2", "--dataset", "aditions"], "there is no dataset 'aditions': did you mean additions?"),
        (["--n", "1,2", "--task", "add/9"], "'add/9' is not in dataset 'additions'"),
        (["--n", "1,2", "--task", "add/0", "--limit", "1"], "exclude each other"),
        (["--n", "1,2", "--budget", "0"], "--budget is 0.0: "),
        (["--n", "1,2", "--seed", "-1"], "--seed is -1: "),
        (["--n", "1,2,3,4,5,6", "--temperature", "0.1,0.2,0.3,0.4,0.5,0.6"], "the values make 36 arms: give fewer"),
        (["--n", ",".join(map(str, range(1, 99))), "--seed", "1", "--temperature", "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,"
          "0.9,0.91,0.92"], "the values make 1078 combinations"),
        (["--preset", "bas"], "'bas': did you mean bass?"),
        (["--preset", "bass", "--n", "4"], "--n is set by the preset bass: leave it out"),
        (["--json", "/no/such/folder/out.json"], "cannot be written"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_and_nothing_is_stored(bassline, stored, additions, words, sentence):
    result = bassline("study", "run", "--target", "smollm2-135m", "--dataset", "additions", *words)
    assert result.exit_code == 2, result.output
    assert sentence in result.stderr
    assert "Traceback" not in result.output
    assert stored() == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[study]\nbudget = 5\n", "arms.toml, [study]: 'budget' is not a key: did you mean budget_s?"),
        ("[study]\ntarget = 'x'\n", "arms.toml, [study]: target is an option of each arm: write it under [[arms]]"),
        ("[[arms]]\ntarget = 'x'\n[[arms]]\ndataset = 'y'\n", "arms.toml, arm 2: dataset is the same for all arms"),
        ("[[arms]]\ntraget = 'x'\n", "arms.toml, arm 1: 'traget' is not a key: did you mean target?"),
        ("[studdy]\n", "'studdy' is not a key: did you mean study?"),
        ("study = 3\n", "study is not a table"),
        ("arms = [1]\n", "arms are not tables"),
        ("[[arms]]\ntarget = 'x'\n", "arms.toml: arms has 1 entries: give at least 2"),
        ("[study]\n", "arms.toml: arms has 0 entries: give at least 2"),
        ("[[arms]]\ntarget = 'smollm2-135m'\nn = 0\n[[arms]]\ntarget = 'x'\n", "arms.toml: arms.0.n is 0: "),
        ('[[arms]]\ntarget = "a\\u0000"\n[[arms]]\ntarget = "x"\n', "arms.0.target is 'a\\x00': a text must not hold"),
        pytest.param("x = " + "[" * 5000, "arms.toml is not TOML", id="deep"),
        pytest.param("x = " + "9" * 5000, "arms.toml is not TOML", id="a long number"),
        ("not toml", "arms.toml is not TOML"),
        pytest.param("# " + "x" * 2**20, "has more than 1 MiB", id="large"),
    ],
)
def test_a_file_that_describes_no_study_is_refused_with_its_place(bassline, stored, tmp_path, text, sentence):
    file = tmp_path / "arms.toml"
    file.write_text(text)
    result = bassline("study", "run", file)
    assert result.exit_code == 2, result.output
    assert sentence in result.stderr
    assert stored() == []


def test_a_file_and_options_of_arms_exclude_each_other(bassline, tmp_path):
    file = tmp_path / "arms.toml"
    file.write_text(TOML)
    assert "defines the arms: leave --n out" in bassline("study", "run", file, "--n", "2").stderr
    assert "cannot be read: No such file" in bassline("study", "run", tmp_path / "none.toml").stderr
    file.write_bytes(b"\xff")
    assert "is not UTF-8 at byte 0" in bassline("study", "run", file).stderr


@pytest.mark.usefixtures("additions", "_ctrl_c")
def test_ctrl_c_keeps_what_is_finished_and_resume_does_the_rest(bassline, engine):
    generate = engine.generate

    def interrupted_in_the_third_task(request, *args):
        if len(engine.requests) == 2:
            engine.hold = threading.Event()
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        return generate(request, *args)

    engine.generate = interrupted_in_the_third_task
    result = bassline("study", "run", *GRID, "--name", "halted")
    assert result.exit_code == 1
    assert "finished samples are kept; `bassline study resume " in result.stderr
    halted = json.loads(bassline("study", "show", "halted", "--json", "-").stdout)
    assert halted["study"]["state"] == "interrupted"
    assert sum(arm["tasks"] for arm in halted["arms"]) == 2
    engine.hold, engine.generate = None, generate
    result = bassline("study", "resume", "halted", "--json", "-")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [arm["tasks"] for arm in found["arms"]] == [3, 3, 3, 3]
    assert found["study"]["id"] == halted["study"]["id"]
    again = bassline("study", "resume", "halted")
    assert (again.exit_code, "nothing is left to resume" in again.stderr) == (1, True)


def test_a_study_that_fails_is_shown_with_the_reason_and_exit_code_1(bassline, additions, ctx):
    def broken(config, on_progress):
        raise OSError("No such file")

    ctx.load_engine = broken
    result = bassline("study", "run", *GRID)
    assert result.exit_code == 1
    assert "the study ended as failed: " in result.stderr
    assert "No such file" in result.stderr


@pytest.fixture
def server(ctx, additions):
    """A server that works on the database."""
    with EmbeddedWorkers(ctx, "serve"):
        yield ctx


@pytest.fixture
def elsewhere(server, monkeypatch):
    """Runs the command line in what is another process to the server: its own connections, and no engine."""
    from dataclasses import replace

    from click.testing import CliRunner

    from app.cli.main import cli
    from app.core.db.database import Database

    other = replace(server, database=Database(server.settings.effective_database_url))
    other.worker_name = "elsewhere:1"
    monkeypatch.setattr("app.cli.common.make_context", lambda: other)
    monkeypatch.setattr("app.cli.live_progress.BEAT_S", 0.02)
    yield lambda *words, **more: CliRunner().invoke(cli, [str(word) for word in words], **more)
    other.database.dispose()


def test_while_the_server_runs_a_study_is_handed_to_it_and_followed(elsewhere, engine):
    result = elsewhere("study", "run", *GRID, "--name", "handed", "--json", "-")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [arm["tasks"] for arm in found["arms"]] == [3, 3, 3, 3]
    assert "`bassline serve` owns this database" in result.stderr
    assert "smollm2-135m, none, n = 1: task 3 of 3" in result.stderr


@pytest.mark.usefixtures("_ctrl_c")
def test_ctrl_c_leaves_the_study_to_the_server(elsewhere, server, engine):
    engine.hold = threading.Event()
    main = threading.main_thread().ident

    def press():
        assert engine.started.wait(60)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=press).start()
    result = elsewhere("study", "run", *GRID, "--name", "halted")
    assert (result.exit_code, "the server continues the study" in result.stderr) == (1, True), result.stderr
    engine.hold.set()

    def state():
        return json.loads(elsewhere("study", "show", "halted", "--json", "-").stdout)["study"]["state"]

    wait_for(lambda: state() == "finished")


def test_an_endpoint_that_the_server_may_not_use_names_its_arm(ctx):
    arms = [{"target": "smollm2-135m"}, {"target": "openai:m@http://localhost:1/v1"}]
    with pytest.raises(BadInputError, match=r"arm 2 \(.*\): target names an endpoint") as refused:
        prepare_study_for_server(ctx, StudySpec.model_validate({"arms": arms}))
    assert refused.value.field == "arms.1.target"
