"""The command line end to end over the fakes: figures out, one sentence and the right exit code for bad input."""

from __future__ import annotations

import json
import re
import signal
import socket
import threading

import pytest
from click.testing import CliRunner

from app.cli.main import cli
from app.core.errors import UnavailableError
from app.jobs.embedded import EmbeddedWorkers
from app.site.factory import create_app
from tests.fakes import FENCE, RIGHT


@pytest.fixture
def bassline(ctx, monkeypatch):
    """Runs the command line over the test's context; returns click's result."""
    for module in ("app.cli.common", "app.cli.serve", "app.cli.models", "app.cli.admin"):
        monkeypatch.setattr(f"{module}.make_context", lambda: ctx)

    def run(*words: str):
        ctx.stopping.clear()
        return CliRunner().invoke(cli, [str(w) for w in words])

    return run


EVAL = ("eval", "--target", "smollm2-135m", "--dataset", "additions", "--n", "2", "--budget", "5")


def test_eval_prints_the_table_writes_json_and_keeps_the_run(bassline, additions, tmp_path):
    result = bassline(*EVAL, "--name", "first", "--json", tmp_path / "out.json")
    assert result.exit_code == 0, result.output
    assert "Pass@First" in result.stdout
    assert "95 % interval" in result.stdout
    document = json.loads((tmp_path / "out.json").read_text())
    assert {"id", "name", "state", "target", "n", "budget_s", "seed"} <= set(document["run"])
    assert {
        "tasks",
        "samples",
        "pass_first",
        "pass_all",
        "ms_per_token_first",
        "ms_per_token_last",
        "ms_per_token_all",
        "tokens_per_s",
        "mean_acceptance_length",
        "budget_overrun_max_s",
    } <= set(document["figures"])
    shown = json.loads(bassline("runs", "show", "first", "--json", "-").stdout)
    assert shown == document
    assert json.loads(bassline("runs", "list", "--json", "-").stdout)[0]["run"]["id"] == document["run"]["id"]
    assert "first" in bassline("leaderboard").stdout
    assert json.loads(bassline("leaderboard", "--budget", "1", "--json", "-").stdout)[0]["pass_first"] == 1.0


@pytest.mark.usefixtures("additions")
def test_eval_for_throughput_says_so_and_is_not_ranked(bassline):
    result = bassline(*EVAL, "--throughput", "--json", "-")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["run"]["throughput"] is True
    assert re.search(r"Several tasks in one batch +yes", result.stderr)
    (row,) = json.loads(bassline("leaderboard", "--json", "-").stdout)
    assert (row["rank"], row["label"]) == (None, "throughput")


@pytest.mark.usefixtures("additions")
def test_compare_plain_decodes_again_without_drafting_and_reports_the_ratio(bassline, engine):
    result = bassline(*EVAL, "--compare-plain", "2", "--json", "-")
    figures = json.loads(result.stdout)["figures"]
    assert figures["speedup_over_plain"] == pytest.approx(1.0)
    assert figures["speedup_tasks"] == 2
    assert len(engine.requests) == 3 + 2
    (listed,) = json.loads(bassline("runs", "list", "--json", "-").stdout)  # the baseline is part of its run
    assert len(json.loads(bassline("leaderboard", "--json", "-").stdout)) == 1
    plain = figures["plain_run"]
    assert json.loads(bassline("runs", "show", plain, "--json", "-").stdout)["run"]["kind"] == "baseline"
    assert bassline("runs", "delete", listed["run"]["id"]).exit_code == 0
    assert bassline("runs", "show", plain).exit_code == 2


@pytest.fixture
def _ctrl_c():
    """A shell ignores Ctrl-C for what it runs in the background, this suite perhaps."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("additions", "_ctrl_c")
def test_ctrl_c_in_the_comparison_keeps_the_run(bassline, engine):
    generate = engine.generate

    def interrupted_in_the_comparison(request, *args):
        if len(engine.requests) == 3:
            engine.hold = threading.Event()
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        return generate(request, *args)

    engine.generate = interrupted_in_the_comparison
    result = bassline(*EVAL, "--compare-plain", "2")
    assert result.exit_code == 1
    assert "interrupted while decoding without drafting" in result.stderr
    (listed,) = json.loads(bassline("runs", "list", "--json", "-").stdout)
    assert listed["run"]["state"] == "finished"
    assert f"bassline runs show {listed['run']['id']}" in result.stderr
    plain = listed["figures"]["plain_run"]
    assert json.loads(bassline("runs", "show", plain, "--json", "-").stdout)["run"]["state"] in (
        "cancelled",
        "interrupted",
    )


@pytest.mark.usefixtures("additions")
def test_export_writes_what_other_tools_and_import_read(bassline, tmp_path):
    bassline(*EVAL, "--name", "source")
    rows = [json.loads(line) for line in bassline("runs", "export", "source").stdout.splitlines()]
    assert {
        "task_id",
        "index",
        "seed",
        "raw",
        "program",
        "extraction",
        "finish_reason",
        "n_tokens",
        "mean_logprob",
        "finished_s",
        "verdict",
    } <= set(rows[0])
    file = tmp_path / "samples.jsonl"
    assert bassline("runs", "export", "source", "--output", file).exit_code == 0
    result = bassline("runs", "import", file, "--target", "elsewhere", "--dataset", "additions", "--name", "copy")
    assert result.exit_code == 0, result.output
    figures = [
        json.loads(bassline("runs", "show", name, "--json", "-").stdout)["figures"] for name in ("source", "copy")
    ]
    assert figures[0]["pass_first"] == figures[1]["pass_first"]
    compared = json.loads(bassline("runs", "compare", "source", "copy", "--json", "-").stdout)
    assert compared["pass_first"]["delta"] == 0.0


@pytest.mark.usefixtures("additions")
def test_a_chat_answer_is_kept_with_the_fence_that_ended_it(bassline, engine):
    engine.has_chat_template = True
    bassline(*EVAL, "--name", "chat", "--prompt-mode", "chat")
    bassline(*EVAL, "--name", "plain", "--prompt-mode", "completion")
    found = {}
    for name in ("chat", "plain"):
        row = json.loads(bassline("runs", "export", name).stdout.splitlines()[0])
        found[name] = (row["raw"], row["extraction"], row["verdict"])
    assert found["chat"] == (RIGHT + FENCE, "fenced", "passed")
    assert found["plain"] == (RIGHT, "completion", "passed")


@pytest.mark.parametrize("budget", ["-1", "0", "nan", "inf"])
@pytest.mark.parametrize("command", [("leaderboard",), ("runs", "compare", "a", "b"), ("study", "show", "a")])
def test_a_budget_that_is_not_a_time_is_refused_in_one_sentence(bassline, command, budget):
    result = bassline(*command, "--budget", budget)
    assert (result.exit_code, result.stderr) == (2, f"Error: budget is {budget}: give a number of seconds above 0\n")


def test_delete_removes_an_ended_run(bassline, additions):
    bassline(*EVAL, "--name", "gone")
    assert bassline("runs", "delete", "gone").exit_code == 0
    assert bassline("runs", "show", "gone").exit_code == 2


def test_complete_prints_samples_and_verdicts(bassline, tmp_path):
    prompt, test = tmp_path / "prompt.py", tmp_path / "test.py"
    prompt.write_text("def add(a, b):\n")
    test.write_text("assert add(1, 2) == 3\n")
    result = bassline("complete", prompt, "--target", "smollm2-135m", "--n", "2", "--test", test)
    assert result.exit_code == 0, result.output
    assert "return a + b" in result.stdout
    assert "passed" in result.stdout
    assert "wrong_answer" in result.stdout


@pytest.mark.parametrize(
    ("words", "exit_code", "sentence"),
    [
        (["--target", "gpt-9"], 2, "model 'gpt-9' is not known"),
        (["--drafter", "gpt-9"], 2, "--drafter is 'gpt-9': use none, ngram, sibling, trained, MODEL"),
        (["--drafter", "siblng"], 2, "--drafter is 'siblng': did you mean sibling? Use none, ngram, sibling"),
        (["--dataset", "nothing"], 2, "there is no dataset 'nothing': use one of additions, humaneval"),
        (["--task", "add/9"], 2, "'add/9' is not in dataset 'additions'"),
        (["--task", "add/0", "--limit", "1"], 2, "exclude each other"),
        (["--n", "0"], 2, "--n is 0: "),
        (["--n", "100000"], 2, "--n is 100000: "),
        (["--budget", "0"], 2, "--budget is 0.0: "),
        (["--budget", "1e9"], 2, "--budget is 1000000000.0: "),
        (["--budget", "nan"], 2, "--budget is nan: "),
        (["--temperature", "-1"], 2, "--temperature is -1.0: "),
        (["--draft-length", "fixed:99"], 2, "--draft-length is 'fixed:99': "),
        (["--draft-length", "magic"], 2, "--draft-length is 'magic': use "),
        (["--time-limit", "inf"], 2, "--time-limit is inf: "),
        (["--json", "/no/such/folder/out.json"], 2, "--json /no/such/folder/out.json cannot be written"),
        (["--compare-plain", "-1"], 2, "compare-plain is -1: "),
        (["--nonsense"], 2, "No such option"),
    ],
)
@pytest.mark.usefixtures("additions")
def test_bad_input_is_one_sentence_and_nothing_is_stored(bassline, words, exit_code, sentence):
    result = bassline(*EVAL, *words)
    assert result.exit_code == exit_code
    assert sentence in result.stderr
    assert "Traceback" not in result.output
    assert json.loads(bassline("runs", "list", "--json", "-").stdout) == []


def test_a_model_that_a_benchmark_cannot_load_is_one_sentence(bassline):
    result = bassline("bench", "decode", "--models", "nonsense-model", "--tasks", "1")
    assert result.exit_code == 2
    assert "model 'nonsense-model' is not known" in result.stderr
    assert "Traceback" not in result.output


def test_a_prompt_longer_than_the_context_fails_with_the_reason(bassline, tmp_path):
    (tmp_path / "long.py").write_text("# " + "x" * 5000)
    result = bassline("complete", tmp_path / "long.py", "--target", "smollm2-135m")
    assert result.exit_code == 1
    assert "prompt is 5002 tokens long" in result.stderr
    assert "shorten it" in result.stderr


def test_what_was_typed_is_not_echoed_at_length(bassline, tmp_path):
    (tmp_path / "long.py").write_text("x" * 300_000)
    result = bassline("complete", tmp_path / "long.py", "--target", "smollm2-135m")
    assert result.exit_code == 2
    assert "prompt is 'xxx" in result.stderr
    assert len(result.stderr) < 300


@pytest.mark.parametrize("fault", [OSError("No such file"), RuntimeError("out of memory")])
@pytest.mark.usefixtures("additions")
def test_a_model_that_cannot_be_loaded_fails_the_run_with_the_reason(bassline, ctx, fault):
    def broken(config, on_progress):
        raise fault

    ctx.load_engine = broken
    result = bassline(*EVAL)
    assert result.exit_code == 1
    assert f"smollm2-135m cannot be loaded: {type(fault).__name__}: {fault}" in result.stderr


def test_a_dataset_of_which_no_task_can_be_passed_fails_the_run(bassline, ctx, tmp_path):
    row = {"task_id": "x/0", "prompt": "def f():\n", "entry_point": "f", "test": "def check(candidate): ...\n"}
    file = tmp_path / "hopeless.jsonl"
    file.write_text(json.dumps({**row, "canonical_solution": "    return 'broken'\n"}))
    assert bassline("datasets", "import", file).exit_code == 0
    result = bassline("eval", "--target", "smollm2-135m", "--dataset", "hopeless")
    assert result.exit_code == 1
    assert "no task is left to decode" in result.stderr


def test_importing_earlier_content_again_says_which_one_the_name_means(bassline, tmp_path):
    row = {"entry_point": "f", "test": "def check(candidate): ...\n", "canonical_solution": "    return 1\n"}
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    old.write_text(json.dumps({**row, "task_id": "x/0", "prompt": "def f():\n"}))
    new.write_text(json.dumps({**row, "task_id": "x/1", "prompt": "def f():\n"}))
    for file in (old, new):
        assert "imported before" not in bassline("datasets", "import", file, "--name", "mine").stderr
    assert (
        "this content was imported before; the name mine now refers to "
        in bassline("datasets", "import", old, "--name", "mine").stderr
    )


@pytest.mark.usefixtures("additions")
def test_without_a_sandbox_nothing_is_decoded(bassline, ctx, engine):
    def no_sandbox():
        raise UnavailableError("no sandbox on this machine, so no sample can be graded: no bubblewrap")

    ctx.make_grader = no_sandbox
    result = bassline(*EVAL)
    assert result.exit_code == 1
    assert "no sandbox on this machine" in result.stderr
    assert not engine.requests


@pytest.mark.usefixtures("additions")
def test_a_database_in_use_is_refused(bassline, ctx):
    with EmbeddedWorkers(ctx, "eval", pinned_only=True):
        result = CliRunner().invoke(cli, list(EVAL))
    assert result.exit_code == 1
    assert "is in use by bassline eval" in result.stderr


def test_serve_refuses_a_public_address_and_a_taken_port(bassline):
    public = bassline("serve", "--host", "0.0.0.0")
    assert public.exit_code == 2
    assert "BASSLINE_REQUIRE_TOKENS" in public.stderr
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = bassline("serve", "--port", taken.getsockname()[1])
    assert result.exit_code == 1
    assert "choose another with --port" in result.stderr


@pytest.mark.parametrize("part", ["web", "worker", "beat"])
def test_parts_of_the_stack_refuse_the_broker_in_memory(bassline, part):
    result = bassline(part)
    assert result.exit_code == 2
    assert "BASSLINE_BROKER_URL" in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--queues", "gpu.interactive.cpu.smollm2-135m"), "'gpu.interactive.cpu.smollm2-135m' is not known"),
    ],
)
def test_a_worker_refuses_a_queue_that_it_does_not_know(bassline, words, said):
    result = bassline("worker", *words)
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.usefixtures("additions", "_ctrl_c")
def test_ctrl_c_keeps_finished_samples_and_resume_does_the_rest(bassline, ctx, engine):
    generate = engine.generate

    def interrupted_in_the_second_task(request, *args):
        if len(engine.requests) == 1:
            engine.hold = threading.Event()
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        return generate(request, *args)

    engine.generate = interrupted_in_the_second_task
    result = bassline(*EVAL, "--name", "halted")
    assert result.exit_code == 1
    assert "finished samples are kept; `bassline runs resume " in result.stderr
    document = json.loads(bassline("runs", "show", "halted", "--json", "-").stdout)
    assert document["run"]["state"] == "interrupted"
    assert len(bassline("runs", "export", "halted").stdout.splitlines()) == 2
    engine.hold, engine.generate = None, generate
    result = bassline("runs", "resume", "halted")
    assert result.exit_code == 0, result.output
    assert len(bassline("runs", "export", "halted").stdout.splitlines()) == 6
    again = bassline("runs", "resume", "halted")
    assert again.exit_code == 1
    assert "nothing is left to resume" in again.stderr


@pytest.mark.parametrize(
    ("name", "value", "exit_code"),
    [
        ("DATABASE_URL", "mysql://x", 2),
        ("DATABASE_URL", "sqlite:///:memory:", 2),
        ("DATABASE_URL", "sqlite:////dev/null/x.db", 1),
        ("DATABASE_URL", "postgresql://nobody:secret@127.0.0.1:1/x", 1),
        ("HEARTBEAT_S", "31", 2),
        ("EXEC_WORKERS", "0", 2),
    ],
)
def test_a_wrong_setting_is_one_sentence_that_names_its_variable(monkeypatch, name, value, exit_code):
    monkeypatch.setenv(f"BASSLINE_{name}", value)
    result = CliRunner().invoke(cli, ["runs", "list"])
    assert result.exit_code == exit_code
    assert f"BASSLINE_{name}" in result.stderr
    assert result.stderr.startswith("Error: ")
    assert "secret" not in result.stderr


def test_tokens_are_made_listed_and_revoked(bassline):
    token = bassline("tokens", "create", "laptop").stdout.strip()
    (row,) = json.loads(bassline("tokens", "list", "--json", "-").stdout)
    assert row["id"] in token
    assert token not in json.dumps(row)
    assert bassline("tokens", "revoke", row["id"]).exit_code == 0
    assert bassline("tokens", "revoke", "nothing").exit_code == 2


def test_json_to_a_place_that_cannot_be_written_is_a_sentence(bassline):
    result = bassline("runs", "list", "--json", "/nowhere/out.json")
    assert result.exit_code == 2
    assert "/nowhere/out.json cannot be written" in result.stderr


@pytest.mark.usefixtures("additions")
def test_a_share_reads_the_same_on_the_command_line_and_on_the_page(bassline, ctx):
    bassline(*EVAL)
    listed = re.search(r"\d+ %", bassline("runs", "list").stdout)[0]
    row = create_app(ctx).test_client().get("/runs").get_data(as_text=True)
    assert f'data-label="Pass@First">{listed}<' in row
