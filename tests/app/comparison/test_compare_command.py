"""`bassline runs compare` for continuous integration: its exit code, its files, and a base run that is a file."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from app.cli.main import cli
from app.comparison.pair import compare_runs, load_stored_run
from app.comparison.report import format_markdown
from app.runs.models import Run
from app.samples.models import Sample
from app.web.ui.tables import quote_markdown
from evaluation.significance import compute_mcnemar_p


@pytest.fixture
def bassline(world, monkeypatch):
    """Runs the command line over the world; returns click's result."""
    monkeypatch.setattr("app.cli.common.make_context", lambda: world.context)
    return lambda *words: CliRunner().invoke(cli, [str(word) for word in words])


def add(world, name: str, solved: str, *, budget_s: float = 10.0, names: str | None = None):
    """A run of one sample per task that solves the tasks marked `1` after 1 s, and none of the others."""
    run_id = world.add_run(name, n=1, limit=len(solved), budget_s=budget_s)
    with world.context.database.session() as session:
        run = session.get(Run, run_id)
        for row, mark in zip(run.tasks, solved, strict=True):
            (sample,) = row.samples
            sample.verdict, sample.finish_reason, sample.finished_s = "passed", "stop", 1.0
            if mark == "0":
                sample.verdict = "wrong_answer"
    return run_id


BASE = "1" * 12
CLEARLY_WORSE = "1" * 5 + "0" * 7  # 7 lost, none won: p = 0.016
PERHAPS_WORSE = "1" * 7 + "0" * 5  # 5 lost, none won: p = 0.063


@pytest.mark.parametrize(
    ("base", "new", "code", "title"),
    [
        (BASE, CLEARLY_WORSE, 3, "Worse."),
        (BASE, PERHAPS_WORSE, 0, "Undecided."),
        (BASE, BASE, 0, "Undecided."),
        (CLEARLY_WORSE, BASE, 0, "Better."),
        ("1" * 164, "1" * 164, 0, "As good within 5 points."),
    ],
)
def test_only_a_loss_beyond_chance_fails(world, bassline, base, new, code, title):
    add(world, "base", base)
    add(world, "new", new)
    result = bassline("runs", "compare", "base", "new", "--budget", "3", "--fail-if-worse")
    assert result.exit_code == code, result.output
    assert title in result.stdout
    assert ("new is worse than base" in result.stderr) == (code == 3)
    assert bassline("runs", "compare", "base", "new").exit_code == 0  # it only reports unless asked


def test_the_threshold_is_that_of_the_test():
    assert compute_mcnemar_p(0, 7) < 0.05 < compute_mcnemar_p(0, 5)


FEW = "1" * 5 + "0" * 27  # losing all of them gives p = 0.063


@pytest.mark.parametrize("new", ["0" * 32, FEW, "1" * 7 + "0" * 25])
def test_a_base_that_solves_too_few_tasks_to_see_a_loss_is_refused(world, bassline, new):
    add(world, "base", FEW)
    add(world, "new", new)
    result = bassline("runs", "compare", "base", "new", "--budget", "3", "--fail-if-worse")
    assert result.exit_code == 2, result.output
    assert "Undecided: A solves too few tasks." in result.stdout
    said = " ".join(result.stderr.split())
    assert "A solves 5 of 32 tasks: even if B lost all of them, p would be 0.062." in said
    assert "A must solve at least 6: evaluate more tasks or more samples per task, or give a larger budget" in said
    assert bassline("runs", "compare", "base", "new").exit_code == 0  # it only reports unless asked


def test_a_run_that_is_better_than_a_weak_base_is_called_better(world, bassline):
    add(world, "base", FEW)
    add(world, "new", "1" * 32)
    result = bassline("runs", "compare", "base", "new", "--budget", "3", "--fail-if-worse")
    assert (result.exit_code, "Better." in result.stdout) == (0, True)


def test_what_is_tested_is_said(world, bassline):
    add(world, "base", BASE)
    add(world, "new", PERHAPS_WORSE)
    said = " ".join(bassline("runs", "compare", "base", "new", "--budget", "3").stdout.split())
    assert "Pass@First at 3 s over 12 tasks: 100 % -> 58 %, −42 points" in said
    assert (
        "(95 % interval −71 to 0), 0 tasks won and 5 lost. B is at most 68 points worse and at most 0 better." in said
    )
    assert "About 1,700 tasks would decide a difference of 5 points." in said


def test_the_clock_counts(world, bassline):
    add(world, "base", BASE)
    slow = add(world, "new", BASE)
    with world.context.database.session() as session:
        for sample in session.query(Sample).filter_by(run_id=slow):
            sample.finished_s = 4.0
    assert bassline("runs", "compare", "base", "new", "--budget", "3", "--fail-if-worse").exit_code == 3
    assert bassline("runs", "compare", "base", "new", "--budget", "5", "--fail-if-worse").exit_code == 0


def test_markdown_holds_what_a_reviewer_needs(world, bassline, tmp_path):
    add(world, "base", BASE)
    add(world, "new", CLEARLY_WORSE, budget_s=8.0)
    file = tmp_path / "report.md"
    result = bassline("runs", "compare", "base", "new", "--budget", "3", "--fail-if-worse", "--markdown", file)
    assert result.exit_code == 3
    text = file.read_text()
    assert text.startswith("### Worse\n")
    assert "| Pass@First at 3 s | 100 % | 42 % | −58 |" in text
    assert "| Pass@All at 3 s |" in text
    assert "Lost: A solves them, B does not (Pass@First): `HumanEval/5`" in text
    assert "| `Budget per task` | `10 s` | `8 s` |" in text
    assert bassline("runs", "compare", "base", "new", "--markdown", "-").stdout.startswith("### Worse\n")


def test_a_base_run_in_a_file_compares_as_in_its_database(world, bassline, tmp_path):
    add(world, "base", BASE)
    add(world, "new", CLEARLY_WORSE)
    before = json.loads(bassline("runs", "compare", "base", "new", "--budget", "3", "--json", "-").stdout)
    for name in ("base", "new"):
        file = tmp_path / f"{name}.json"
        assert bassline("runs", "export", name, "--format", "run", "--output", file).exit_code == 0
        assert "def " not in file.read_text()  # no texts of models
    with world.context.database.session() as session:
        for run in session.query(Run):
            session.delete(run)
    files = [tmp_path / "base.json", tmp_path / "new.json"]
    result = bassline("runs", "compare", *files, "--budget", "3", "--json", "-", "--fail-if-worse")
    assert result.exit_code == 3, result.output
    assert json.loads(result.stdout) == before
    with world.context.database.read() as session:
        assert session.query(Run).count() == 0  # nothing was imported


def test_a_run_compared_with_itself_does_not_differ(world, bassline):
    add(world, "base", BASE)
    found = json.loads(bassline("runs", "compare", "base", "base", "--json", "-").stdout)
    assert (found["pass_first"]["wins"], found["pass_first"]["p"], found["changed"]) == ([], 1.0, {})


def test_settings_and_device_of_a_file_are_compared_too(world, bassline, tmp_path):
    world.add_run("base", n=2, limit=12, drafter="none", device="CPU, 2 cores")
    world.add_run("new", n=2, limit=12)
    bassline("runs", "export", "base", "--format", "run", "--output", tmp_path / "base.json")
    text = bassline("runs", "compare", tmp_path / "base.json", "new", "--markdown", "-").stdout
    assert "| `Drafter` | `none` | `sibling` |" in text
    assert "| `Device name` | `CPU, 2 cores` | `NVIDIA H100 80GB HBM3` |" in text
    assert "different devices" in text


def broken(document, field, value):
    document["run"][field] = value
    return json.dumps(document)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (lambda d: "", "it is not JSON"),
        (lambda d: "[]", "is not a run"),
        (lambda d: json.dumps({"bassline": "run-1"}), "run is missing"),
        (lambda d: json.dumps({**d, "bassline": "run-9"}), "bassline is 'run-9'"),
        (lambda d: broken(d, "dataset_sha256", "0" * 64), "is over another humaneval"),
        (lambda d: broken(d, "dataset", "mine"), "there is no dataset 'mine'"),
        (lambda d: broken(d, "n", "many"), "run.n is 'many'"),
        (lambda d: json.dumps({**d, "tasks": [{**d["tasks"][0], "task_id": "X/1"}]}), "has the task 'X/1'"),
    ],
)
def test_a_file_that_is_no_run_is_refused_by_name(world, bassline, tmp_path, text, sentence):
    add(world, "base", BASE)
    file = tmp_path / "base.json"
    bassline("runs", "export", "base", "--format", "run", "--output", file)
    file.write_text(text(json.loads(file.read_text())))
    result = bassline("runs", "compare", file, "base")
    assert result.exit_code == 2, result.output
    assert sentence in result.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["base", "new", "--budget", "30"], "run A stopped at 10 s"),
        (["base", "new", "--markdown", "/nowhere/report.md"], "--markdown /nowhere/report.md cannot be written"),
        (["base", "new", "--markdown", "-", "--json", "-"], "only one of markdown and json can be -"),
        (["missing.json", "new"], "missing.json cannot be read"),
    ],
)
def test_bad_input_ends_with_2_and_writes_nothing(world, bassline, tmp_path, words, sentence):
    add(world, "base", BASE)
    add(world, "new", CLEARLY_WORSE)
    report = tmp_path / "report.md"
    rest = [] if "--markdown" in words else ["--markdown", report]
    result = bassline("runs", "compare", *words, *rest, "--fail-if-worse")
    assert result.exit_code == 2, result.output
    assert sentence in result.stderr
    assert not report.exists()


def test_a_file_is_written_whole_or_not_at_all(world, bassline, tmp_path, monkeypatch):
    add(world, "base", BASE)
    file = tmp_path / "base.json"
    file.write_text("before")

    def fails(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", fails)
    result = bassline("runs", "export", "base", "--format", "run", "--output", file)
    assert result.exit_code == 1
    assert "No space left on device" in result.stderr
    assert [path.name for path in tmp_path.glob("*base*")] == ["base.json"]
    assert file.read_text() == "before"


HOSTILE = "a | b\n`x` @someone <img src=x> [l](http://x)\x1b[31m\u202e\x00"


def test_hostile_names_stay_text_in_the_report(world):
    base, new = add(world, HOSTILE[:-1], BASE), add(world, "new", CLEARLY_WORSE)
    with world.context.database.read() as session:
        found = compare_runs(session, *(load_stored_run(session, session.get(Run, run)) for run in (base, new)), 3)
        text = format_markdown(found)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "`a \\| b \N{MODIFIER LETTER GRAVE ACCENT}x" in text


@given(st.text(max_size=80))
def test_a_code_span_is_one_line_that_nothing_ends(text):
    span = quote_markdown(text)
    assert span[0] == span[-1] == "`"
    assert not {"`", "\n", "\r"} & set(span[1:-1])
    assert span.count("|") == span.count("\\|")


@pytest.mark.parametrize(("margin", "code"), [("40", 0), ("5", 2)])
def test_with_a_margin_the_new_run_must_be_shown_not_to_be_inferior(world, bassline, margin, code):
    add(world, "base", BASE)
    add(world, "new", BASE)
    words = ["runs", "compare", "base", "new", "--budget", "3", "--fail-if-worse", "--margin", margin]
    result = bassline(*words)
    assert result.exit_code == code, result.output
    assert ("B may be more than 5 points worse than A" in " ".join(result.stderr.split())) == (code == 2)


def test_a_pipe_gets_each_heading_name_and_sentence_on_one_line(world, bassline):
    add(world, "base", BASE)
    long = "candidate-" + "x" * 130
    add(world, long, PERHAPS_WORSE)
    said = bassline("runs", "compare", "base", long, "--budget", "3").stdout.splitlines()
    assert said[0] == f"{long} (B) against base (A, the baseline)"
    assert any("difference in points" in line and "tasks lost" in line for line in said)
    assert said[-1].startswith("Undecided. ")
    assert said[-1].endswith(" points.")


def test_speed_is_per_sample_where_the_runs_have_other_numbers_of_samples(world, bassline):
    world.add_run("one sample", n=1, limit=4)
    world.add_run("four samples", n=4, limit=4)
    said = bassline("runs", "compare", "one sample", "four samples").stdout
    found = re.search(r"Per sample, B wrote (\S+) times .* in all (\S+) times, with 4 samples per task against 1", said)
    assert float(found[1]) == pytest.approx(float(found[2]) / 4, abs=0.02)
