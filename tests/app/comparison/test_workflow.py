"""The workflows in docs/ci work as they stand: their shell steps are executed, with a real model and sandbox."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest
import yaml

from app.comparison import run_file
from app.runs.repository import get_run
from decoding.models import fetch
from evaluation.sandbox import Sandbox, SandboxUnavailableError
from tests.app.comparison.test_compare_command import BASE, CLEARLY_WORSE, add

CHECKOUT = Path(__file__).parents[3]
FILE = CHECKOUT / "docs" / "ci" / "bassline.yml"
OWN_CODE = FILE.with_name("own-code.yml")
TEXTS = """
def shorten(text, width, end="..."):
    if width < len(end):
        raise ValueError("too narrow")
    if len(text) <= width:
        return text
    return text[: width - len(end)] + end
"""
TESTS_OF_TEXTS = """
import pytest
from texts import shorten


@pytest.mark.parametrize("width, short", [(2, None), (5, "ab..."), (7, "abcd..."), (8, "abcdefgh"), (9, "abcdefgh")])
def test_shorten(width, short):
    if short is None:
        with pytest.raises(ValueError):
            shorten("abcdefgh", width)
    else:
        assert shorten("abcdefgh", width) == short
        assert shorten("abcdefgh", width, end=".") == ("abcdefgh" if width > 7 else "abcdefgh"[: width - 1] + ".")
"""
SHORTER = {"--target": "smollm2-135m", "--limit": "2", "--n": "2", "--max-tokens": "32"}
EVENTS = {"push", "pull_request"}


@pytest.fixture(scope="module")
def workflow() -> dict:
    return yaml.safe_load(FILE.read_text())


def shortened(options: str) -> str:
    for flag, value in SHORTER.items():
        options, changed = re.subn(rf"{flag} \S+", f"{flag} {value}", options)
        assert changed == 1, flag
    return options


def fresh_environment(folder: Path) -> Path:
    """The programs of a new virtual environment that has our dependencies, pip included, and not Bassline itself."""
    venv.create(folder / "environment", symlinks=True)
    libraries = folder / "libraries"
    libraries.mkdir()
    for entry in (entry for path in sys.path if path.endswith("site-packages") for entry in Path(path).iterdir()):
        if "bassline" not in entry.name and entry.suffix != ".pth" and not (libraries / entry.name).exists():
            (libraries / entry.name).symlink_to(entry)
    (site_packages,) = (folder / "environment" / "lib").glob("python*/site-packages")
    (site_packages / "dependencies.pth").write_text(f"{libraries}\n")
    return folder / "environment" / "bin"


class Runner:
    """Runs the steps of one event in a folder, as GitHub does; `sudo` does nothing, pip installs this checkout."""

    def __init__(self, workflow: dict, folder: Path, what: str = str(CHECKOUT), **more: str) -> None:
        self.more = more
        self.folder, self.workflow, self.what = folder, workflow, what
        self.programs = programs = fresh_environment(folder)
        (programs / "sudo").write_text("#!/bin/sh\n")
        (programs / "pip").write_text(f'#!/bin/sh\nexec "{programs}/python" -m pip "$@"\n')
        for name in ("sudo", "pip"):
            (programs / name).chmod(0o755)
        self.path = f"{programs}:{os.environ['PATH']}"
        self.summary = folder / "summary.md"
        self.said = ""

    def run(self, event: str) -> int:
        """Does what a job for this event does. Returns the exit code of the first step that fails, or 0."""
        given = {name: str(value) for name, value in self.workflow["env"].items()}
        given |= {"EVAL": shortened(given["EVAL"]), "BASSLINE": self.what, "PIP_EXTRA_INDEX_URL": ""}
        environment = {
            **os.environ, **given, "PATH": self.path, "CI": "true", "GITHUB_EVENT_NAME": event,
            "GITHUB_STEP_SUMMARY": str(self.summary), "BASSLINE_DATA_DIR": str(self.folder / ".data"), **self.more,
        }  # fmt: skip
        environment.pop("PYTHONPATH", None)
        for step in self.workflow["jobs"]["compare"]["steps"]:
            wanted = re.fullmatch(r"github\.event_name == '(\w+)'", step.get("if", f"github.event_name == '{event}'"))
            if "run" not in step or not wanted or wanted[1] != event:
                continue
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=self.folder, env=environment, capture_output=True, text=True, timeout=900, check=False,
            )  # fmt: skip
            self.said += f"{step['name']}: {done.stdout}{done.stderr}\n"
            if done.returncode:
                return done.returncode
        return 0


@pytest.mark.parametrize("file", [FILE, OWN_CODE], ids=lambda file: file.name)
def test_it_is_a_workflow_whose_shell_steps_hold_nothing_of_a_stranger(file):
    workflow = yaml.safe_load(file.read_text())
    steps = workflow["jobs"]["compare"]["steps"]
    triggers = workflow.get("on", workflow.get(True))  # YAML 1.1 reads `on` as true
    assert set(triggers) == EVENTS  # not pull_request_target: a fork's code gets no secrets
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["defaults"]["run"]["shell"] == "bash"
    for step in steps:
        assert ("run" in step) != ("uses" in step)
        assert "${{" not in step.get("run", "")  # a title of a pull request must not become a command
        assert re.fullmatch(r"actions/[a-z-]+(/[a-z]+)?@v\d+", step.get("uses", "actions/checkout@v4"))
        for event in re.findall(r"event_name == '(\w+)'", step.get("if", "")):
            assert event in EVENTS


@pytest.mark.parametrize("file", [FILE, OWN_CODE], ids=lambda file: file.name)
def test_the_base_run_is_stored_as_it_is_restored(file):
    steps = yaml.safe_load(file.read_text())["jobs"]["compare"]["steps"]
    by_action = {
        step["uses"].split("@")[0]: step["with"] for step in steps if step.get("uses", "").startswith("actions/cache/")
    }
    store, restore = by_action["actions/cache/save"], by_action["actions/cache/restore"]
    assert store["path"] == restore["path"]
    assert store["path"].startswith("base.json")
    assert store["key"].startswith(restore["restore-keys"])


def has_build_backend(folder: Path) -> bool:
    """Whether pip gets the build backend here; a machine without a package index cannot install from source."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), "hatchling"]
    return subprocess.run(pip, capture_output=True, check=False, timeout=600).returncode == 0


@pytest.mark.thorough
@pytest.mark.model
@pytest.mark.timeout(1800)  # minutes of work beside other programs
def test_its_steps_run(workflow, tmp_path):
    try:
        Sandbox.detect()
    except SandboxUnavailableError as error:
        pytest.skip(f"no sandbox here: {error}")
    if not has_build_backend(tmp_path / "backend"):
        pytest.skip("no package index here: pip cannot get hatchling")
    fetch.ensure("smollm2-135m")
    runner = Runner(workflow, tmp_path)

    # Two tasks are too few for a base run, which the workflow says as soon as it has made one.
    assert runner.run("push") == 2, runner.said
    assert "A must solve at least 6" in runner.said
    assert (runner.programs / "bassline").is_file()  # what pip installed, not what lies in this checkout
    assert (tmp_path / "base.json").read_bytes() == (tmp_path / "candidate.json").read_bytes()
    assert not runner.summary.exists()

    assert runner.run("pull_request") == 2, runner.said  # the same configuration again
    assert "### Undecided: A solves too few tasks" in runner.summary.read_text()


def committed() -> str:
    """What a workflow names until there is a package: this repository at its last commit."""
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    return f"bassline @ git+file://{CHECKOUT}@{found.stdout.strip()}"


@pytest.mark.thorough
@pytest.mark.model
@pytest.mark.timeout(1800)
def test_the_steps_for_own_code_run_in_a_fresh_environment(tmp_path):
    if not has_build_backend(tmp_path / "backend"):
        pytest.skip("no package index here: pip cannot get hatchling")
    fetch.ensure("smollm2-135m")
    (tmp_path / "texts.py").write_text(TEXTS)
    (tmp_path / "test_texts.py").write_text(TESTS_OF_TEXTS)
    workflow = yaml.safe_load(OWN_CODE.read_text())
    # The runner keeps its environments beside the project, where pytest would look for tests.
    tests = "python -m pytest -q test_texts.py"
    runner = Runner(workflow, tmp_path, committed(), INSTALL="pip install --quiet pytest", TESTS=tests)

    assert runner.run("push") == 2, runner.said  # one task is too few, which the workflow says
    assert "A must solve at least 6" in runner.said
    assert "became tasks" in runner.said
    assert runner.run("pull_request") == 2, runner.said
    assert "### Undecided: A solves too few tasks" in runner.summary.read_text()


def test_it_says_at_once_that_it_does_not_know_what_to_install(workflow, tmp_path):
    runner = Runner(workflow, tmp_path, what=workflow["env"]["BASSLINE"])
    assert runner.run("push") == 1
    assert runner.said.startswith("Check that this workflow says what to install: ::error::BASSLINE is empty: set it")
    assert "Install:" not in runner.said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("base", "new", "code", "title"),
    [
        (BASE, CLEARLY_WORSE, 3, "### Worse"),
        pytest.param(BASE, BASE, 0, "### Undecided", marks=pytest.mark.thorough),
        pytest.param(
            "1" * 5 + "0" * 27, "0" * 32, 2, "### Undecided: A solves too few tasks", marks=pytest.mark.thorough
        ),
    ],
)
def test_its_comparison_fails_and_still_shows_the_report(workflow, tmp_path, world, base, new, code, title):
    for name, solved in (("base", base), ("candidate", new)):
        run_id = add(world, name, solved)
        with world.context.database.read() as session:
            (tmp_path / f"{name}.json").write_text(run_file.format_run_file(session, get_run(session, run_id)))
    runner = Runner({**workflow, "env": {**workflow["env"], "BUDGET": "3"}}, tmp_path)
    (runner.programs / "bassline").write_text(
        f'#!/bin/sh\nPYTHONPATH="{CHECKOUT}" exec "{sys.executable}" -m app.cli "$@"\n'
    )
    (runner.programs / "bassline").chmod(0o755)
    only_compare = [step for step in workflow["jobs"]["compare"]["steps"] if step.get("name") == "Compare"]
    runner.workflow = {**runner.workflow, "jobs": {"compare": {"steps": only_compare}}}
    assert runner.run("pull_request") == code, runner.said
    assert title in runner.summary.read_text()
    (tmp_path / "base.json").unlink()
    assert runner.run("pull_request") == 0
    assert "No base run yet" in runner.summary.read_text()
