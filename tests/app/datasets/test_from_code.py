"""`bassline datasets from-code`: both forms stored, a report, and one sentence for what cannot work."""

from __future__ import annotations

import json
import os
import sys

import pytest
from click.testing import CliRunner

from app.cli.project_options import confirm_stored_files
from app.core.db.archives import read_project_archive
from app.core.ports import SandboxGrader
from app.datasets import from_code, service
from app.datasets.checking import check_solutions
from app.site.factory import create_app
from evaluation.from_code.source.project import open_project
from evaluation.project_tests.archive import unpack
from evaluation.sandbox import SandboxResult

SOURCE = '''
def shorten(text, width=10, end="..."):
    """Cut a text to a width.

    >>> shorten("abc")
    'abc'
    >>> shorten("a long text", 6)
    'a l...'
    >>> shorten("abcdef", 5, end="-")
    'abcd-'
    """
    if width < len(end):
        raise ValueError("too narrow")
    if len(text) <= width:
        return text
    return text[: width - len(end)] + end


def tiny(x):
    """Too short to ask for."""
    return x
'''


@pytest.fixture(autouse=True)
def real_sandbox(ctx):
    ctx.make_grader = SandboxGrader


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "texts.py").write_text(SOURCE)
    return folder


def test_a_project_becomes_two_datasets_that_a_run_can_use(bassline, ctx, project, tmp_path):
    result = bassline(
        "datasets", "from-code", project, "--doctests", "--python", sys.executable, "--name", "mine",
        "--json", tmp_path / "report.json", "--tests", "python -c pass",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "left out: 1 of 2 functions" in result.stdout
    assert "with your rights and outside the sandbox" in result.stderr
    assert f" -c pass, then {sys.executable} -m" in " ".join(result.stderr.split())
    assert "\n1 task: 1 judged by recorded calls, 0 by the project's own tests" in result.stdout
    assert "100 % of the 1 function that the tests call became tasks" in result.stdout
    for name in ("mine", "mine-infill"):
        dataset = service.require_dataset(ctx, name)
        assert [task.task_id for task in dataset.tasks] == ["texts/texts.shorten"]
        assert dataset.tasks[0].source["file"] == "texts.py"
        assert check_solutions(ctx, dataset.id) == {}
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["dataset"], report["functions_seen"], report["tasks"]) == ("mine", 2, 1)
    assert 0 < report["mutation_score"] <= 1
    assert report["dropped"] == {"was not called while the tests ran": 1}
    assert (report["functions_called"], report["covered_share"], report["trivial_passed"]) == (1, 1.0, 0)
    assert report["originals_failed"] == []
    assert {(each["judge"], each["kind"], each["trust"]) for each in report["kept"]} == {("cases", "function", "proxy")}
    assert [each["task_id"] for each in report["kept"]] == ["texts/texts.shorten"]
    assert report["left_out"] == [
        {"file": "texts.py", "function": "tiny", "line": 19, "detail": "",
         "reason": "was not called while the tests ran", "unlock": "tests that call it, or --doctests"}
    ]  # fmt: skip
    assert [each["name"] for each in report["datasets"]] == ["mine", "mine-infill"]
    place = f"/datasets/{service.require_dataset(ctx, 'mine').id}"
    client = create_app(ctx).test_client()
    page = " ".join(client.get(place).get_data(as_text=True).split())
    assert "1 function left out" in page
    assert "1 of the 1 function that the project&#39;s tests call became tasks (100 %)" in page.replace("'", "&#39;")
    assert "tests that call it, or --doctests" in page
    left_out = client.get(f"{place}/left-out").get_data(as_text=True)
    assert "1: was not called while the tests ran" in left_out
    assert "texts.py:19" in left_out
    shown = bassline("datasets", "show", "mine-infill", "--task", "texts/texts.shorten")
    assert '"mutation_score"' in shown.output
    assert not list((ctx.settings.data_dir / "from-code").glob("*/made.jsonl"))


def test_the_same_project_gives_the_same_datasets(bassline, ctx, project):
    words = ("datasets", "from-code", project, "--doctests", "--python", sys.executable, "--name", "mine")
    assert bassline(*words).exit_code == 0
    first = {name: service.require_dataset(ctx, name).id for name in ("mine", "mine-infill")}
    assert bassline(*words).exit_code == 0
    assert {name: service.require_dataset(ctx, name).id for name in first} == first


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("{project}",), "give --tests"),
        (("{project}", "--tests", "'"), "--tests cannot be read as a command"),
        (("{project}", "--tests", ""), "--tests is empty"),
        (("{project}", "--tests", "no-such-command"), "cannot be started: no-such-command"),
        (("{project}", "--tests", f"{sys.executable} -c 'raise SystemExit(3)'"), "ended with exit code 3"),
        (("{project}", "--doctests", "--name", "humaneval"), "is the name of a built-in dataset"),
        (("{project}", "--doctests", "--python", "/no/python"), "--python /no/python is not a program that can"),
        (("./no/folder", "--doctests"), "there is no folder ./no/folder"),
        (("{project}", "--doctests", "--timeout", "0"), "--timeout"),
    ],
)
def test_what_cannot_work_is_one_sentence_with_the_remedy_and_exit_code_2(bassline, project, words, sentence):
    result = bassline("datasets", "from-code", *(word.format(project=project) for word in words))
    assert result.exit_code == 2, result.output
    assert sentence in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.output


def test_a_project_without_a_task_fails_with_its_reasons(bassline, tmp_path):
    folder = tmp_path / "clock"
    folder.mkdir()
    (folder / "clock.py").write_text(
        'import time\n\n\ndef now(x):\n    """The time.\n\n    >>> now(1) > 0\n    True\n    """\n'
        "    seconds = time.time()\n    seconds += x\n    return seconds\n"
    )
    result = bassline("datasets", "from-code", folder, "--doctests", "--python", sys.executable)
    assert result.exit_code == 1
    assert "does not repeat in the sandbox what it did in its tests" in " ".join(result.stdout.split())
    assert "no function of clock became a task" in result.stderr


def test_the_projects_interpreter_runs_its_tests_and_a_crash_is_shown_with_its_last_lines(bassline, project, tmp_path):
    folder = tmp_path / "venv"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    (project / "tools").mkdir()
    (project / "tools" / "release.py").write_text("x = 1\n")
    code = "import os, sys, texts; texts.shorten('a', 5); print(sys.argv[0]); print('boom'); os._exit(9)"
    result = bassline(
        "datasets", "from-code", project, "--tests", f'python -c "{code}"', "--python", folder / "bin" / "python",
        "--json", tmp_path / "report.json",
    )  # fmt: skip
    assert f"outside the sandbox: {folder}/bin/python -c " in result.stderr
    assert "the project's tests ended with exit code 9; their calls until then count" in result.stderr
    assert result.stderr.index("    -c\n    boom\n")
    assert "skipped, is not a package: tools" in result.stdout
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["tests"]["exit_code"], report["tests"]["last_lines"]) == (9, ["-c", "boom"])
    assert report["tests"]["judge_refused"].startswith("no test was run by pytest, which says what each test calls: ")
    assert report["skipped"] == {"tools": "is not a package"}


def test_a_fault_of_the_sandbox_stops_with_one_sentence_and_exit_code_1(bassline, project, monkeypatch):
    fault = SandboxResult("sandbox_error", "no process could be started")
    monkeypatch.setattr("evaluation.sandbox.Sandbox.run", lambda self, job, limits: fault)
    result = bassline("datasets", "from-code", project, "--doctests", "--python", sys.executable)
    assert result.exit_code == 1
    assert "the sandbox failed repeatedly: no process could be started; the same command resumes" in result.stderr


def test_interrupted_while_the_tasks_are_judged_once_more_the_same_command_resumes(
    bassline, ctx, project, monkeypatch, tmp_path
):
    words = ("datasets", "from-code", project, "--doctests", "--python", sys.executable, "--name", "mine")
    report = tmp_path / "report.json"
    recheck = from_code.recheck_stored_tasks

    def interrupted(*_words):
        raise KeyboardInterrupt

    monkeypatch.setattr(from_code, "recheck_stored_tasks", interrupted)
    assert bassline(*words, "--json", report).exit_code != 0
    assert not report.exists()
    stored = service.require_dataset(ctx, "mine")
    (state,) = (folder for folder in (ctx.settings.data_dir / "from-code").iterdir() if folder.is_dir())
    monkeypatch.setattr(from_code, "recheck_stored_tasks", recheck)

    again = bassline(*words, "--json", report)

    assert again.exit_code == 0, again.output
    assert service.require_dataset(ctx, "mine").id == stored.id
    assert json.loads(report.read_text())["tasks"] == 1
    assert not state.exists()


def test_what_the_recheck_counts_is_judged_and_not_assumed(ctx):
    rows = [
        {
            "task_id": f"t/{name}", "prompt": "def f(x, y):\n", "entry_point": "f", "canonical_solution": solution,
            "test": f"def check(candidate):\n    {test}\n",
        }
        for name, solution, test in (
            ("good", "    return x + 1\n", "assert candidate(1, 5) == 2"),
            ("empty", "    return []\n", "assert not candidate(1, 5)"),
            ("argument", "    return y\n", "assert candidate(1, 5) == 5"),
            ("broken", "    return x\n", "assert candidate(1, 5) == 2"),
        )
    ]  # fmt: skip
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    dataset = service.import_bytes(ctx, data, "checked", "checked.jsonl")
    found = from_code.recheck_stored_tasks(ctx, [dataset])
    assert found.originals_failed == ("t/broken",)
    assert found.trivial_passed == ("t/argument", "t/empty")


BLOG = """
import os

SECRETS = os.environ["BLOG_SECRET"], os.environ["BLOG_SALT"]


class Blog:
    def __init__(self):
        self.entries = []

    def sign(self, text, hook):
        if not text:
            return ""
        signed = text + "".join(SECRETS)
        hook(len(signed) + 1)
        self.entries.append(signed)
        return signed
"""
BLOG_TESTS = """
from blog import Blog


def test_sign():
    seen, blog = [], Blog()
    assert blog.sign("a", seen.append) == "ahunter2pepper"
    assert seen == [15]
    assert blog.sign("", seen.append) == ""
    assert len(blog.entries) == 1
"""


@pytest.mark.slow
def test_variables_reach_the_tests_and_only_given_values_are_stored(bassline, ctx, tmp_path, monkeypatch):
    (tmp_path / "blog").mkdir()
    (tmp_path / "blog" / "blog.py").write_text(BLOG)
    (tmp_path / "blog" / "test_blog.py").write_text(BLOG_TESTS)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("BLOG_SALT", "pepper")
    words = ["datasets", "from-code", tmp_path / "blog", "--python", sys.executable, "--tests", "python -m pytest -q"]

    without = bassline(*words)
    result = bassline(*words, "--env", "BLOG_SECRET=hunter2", "--env", "BLOG_SALT")

    assert without.exit_code == 2
    assert "give --env BLOG_SECRET=VALUE" in without.stderr
    assert result.exit_code == 0, result.output
    assert "BLOG_SECRET" not in os.environ
    (task,) = service.require_dataset(ctx, "blog").tasks
    assert task.project_tests["environment"] == {"BLOG_SECRET": "hunter2", "BLOG_SALT": None}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("NO_SUCH_VARIABLE_HERE", "is not set here: set it, or give --env NO_SUCH_VARIABLE_HERE=VALUE"),
        ("=x", "NAME=VALUE"),
    ],
)
def test_a_variable_without_name_or_value_is_refused(bassline, project, given, said):
    result = bassline("datasets", "from-code", project, "--doctests", "--env", given)

    assert result.exit_code == 2
    assert said in result.stderr


def test_a_project_in_another_language_is_one_sentence_with_the_remedy(bassline, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "main.go").write_text("")

    result = bassline("datasets", "from-code", tmp_path / "own", "--tests", "python -m pytest -q")

    assert result.exit_code == 2
    assert "holds no Python source outside its tests" in result.stderr
    assert "write tasks in other languages as a case file" in result.stderr


def test_a_project_with_unittest_is_told_to_use_pytest(bassline, project, monkeypatch):
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # of this test, which runs by pytest
    test = "import unittest\nfrom texts import shorten\n\nclass T(unittest.TestCase):\n    def test_it(self):\n"
    (project / "test_texts.py").write_text(f"{test}        self.assertEqual(shorten('abc'), 'abc')\n")
    words = ("datasets", "from-code", project, "--python", sys.executable, "--tests")

    by_unittest = bassline(*words, "python -m unittest -q")
    without_pytest = bassline(*words, "python -S -m pytest -q")

    assert "runs unittest's classes too" in " ".join(by_unittest.stdout.split())
    assert without_pytest.exit_code == 2
    assert "-m pip install pytest` (it runs unittest's classes too)" in without_pytest.stderr


@pytest.mark.slow
def test_the_command_says_what_is_stored_and_leaves_out_what_git_ignores_or_looks_like_a_secret(
    bassline, ctx, tmp_path, monkeypatch
):
    folder = tmp_path / "texts"
    (folder / "data").mkdir(parents=True)
    (folder / "texts.py").write_text(SOURCE)
    (folder / "test_texts.py").write_text(
        "from texts import shorten\n\n\ndef test_shorten():\n"
        "    assert shorten('abc') == 'abc'\n    assert shorten('abcdefghijk') == 'abcdefg...'\n"
        "    assert shorten('abcdefghij') == 'abcdefghij'\n    assert shorten('abcdef', 5, '-') == 'abcd-'\n"
        "    assert shorten('abc', 3) == 'abc'\n"
        "    try:\n        shorten('abcd', 2)\n    except ValueError:\n        return\n    assert False\n"
    )
    (folder / ".gitignore").write_text("secrets.json\n")
    (folder / "secrets.json").write_text('{"password": "x"}')
    (folder / "data" / "server.key").write_text("a key")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    result = bassline(
        "datasets", "from-code", folder, "--tests", "python -m pytest -q -p no:cacheprovider", "--judge", "tests",
        "--python", sys.executable, "--json", tmp_path / "report.json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    said = " ".join(result.stderr.split())
    assert "the database stores 2 files" in said
    assert "data/server.key (5 bytes)" in said
    stored = json.loads((tmp_path / "report.json").read_text())["stored_files"]
    assert stored["left_out"]["secrets.json"] == "is ignored by git"
    assert stored["left_out"]["data/server.key"] == "has a name that looks like a secret"
    assert stored["files"] == 2
    (task,) = service.require_dataset(ctx, "texts").tasks
    archive = read_project_archive(ctx.database, task.project_tests["project"])
    assert sorted(unpack(archive, task.project_tests["project"])) == ["test_texts.py", "texts.py"]


@pytest.mark.parametrize(
    ("answer", "assume_yes", "stored"), [("y\n", False, True), ("\n", False, False), ("", True, False)]
)
def test_on_a_terminal_the_user_decides_on_files_that_look_like_secrets(
    tmp_path, monkeypatch, answer, assume_yes, stored
):
    (tmp_path / "texts.py").write_text(SOURCE)
    (tmp_path / "server.key").write_text("a key")
    with CliRunner().isolation(input=answer):
        monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
        assert confirm_stored_files(open_project(str(tmp_path)), assume_yes) is stored
