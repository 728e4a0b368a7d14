"""docs/ci/bassline.yml works as it stands: its shell steps are executed, with a real model and the real sandbox."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from app.comparison import run_file
from app.runs.repository import get_run
from decoding.models import fetch
from evaluation.sandbox import Sandbox, SandboxUnavailable
from tests.app.comparison.test_compare_command import BASE, CLEARLY_WORSE, add

FILE = Path(__file__).parents[3] / "docs" / "ci" / "bassline.yml"
SHORTER = {"--limit": "2", "--n": "2", "--max-tokens": "32"}
EVENTS = {"push", "pull_request"}


@pytest.fixture(scope="module")
def workflow() -> dict:
    return yaml.safe_load(FILE.read_text())


@pytest.fixture(scope="module")
def steps(workflow) -> list[dict]:
    return workflow["jobs"]["compare"]["steps"]


def shortened(options: str) -> str:
    for flag, value in SHORTER.items():
        options, changed = re.subn(rf"{flag} \S+", f"{flag} {value}", options)
        assert changed == 1, flag
    return options


class Runner:
    """Runs the steps of one event in a folder, as GitHub does; `pip` and `sudo` only note how they were called."""

    def __init__(self, workflow: dict, folder: Path) -> None:
        self.folder, self.workflow = folder, workflow
        programs = folder / "programs"
        programs.mkdir()
        for name in ("pip", "sudo"):
            (programs / name).write_text(f'#!/bin/sh\necho "{name} $*" >> "{folder}/called"\n')
        (programs / "bassline").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m app.cli "$@"\n')
        for program in programs.iterdir():
            program.chmod(0o755)
        self.path = f"{programs}:{os.environ['PATH']}"
        self.summary = folder / "summary.md"
        self.said = ""

    def run(self, event: str) -> int:
        """Does what a job for this event does. Returns the exit code of the first step that fails, or 0."""
        given = {name: str(value) for name, value in self.workflow["env"].items()}
        given["EVAL"] = shortened(given["EVAL"])
        environment = {
            **os.environ, **given, "PATH": self.path, "CI": "true", "GITHUB_EVENT_NAME": event,
            "GITHUB_STEP_SUMMARY": str(self.summary), "BASSLINE_DATA_DIR": str(self.folder / "data"),
            "PYTHONPATH": str(FILE.parents[2]),
        }  # fmt: skip
        for step in self.workflow["jobs"]["compare"]["steps"]:
            wanted = re.fullmatch(r"github\.event_name == '(\w+)'", step.get("if", f"github.event_name == '{event}'"))
            if "run" not in step or not wanted or wanted[1] != event:
                continue
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=self.folder, env=environment, capture_output=True, text=True, timeout=240, check=False,
            )  # fmt: skip
            self.said += f"{step['name']}: {done.stdout}{done.stderr}\n"
            if done.returncode:
                return done.returncode
        return 0


def test_it_is_a_workflow_whose_shell_steps_hold_nothing_of_a_stranger(workflow, steps):
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


def test_the_base_run_is_stored_as_it_is_restored(steps):
    by_action = {
        step["uses"].split("@")[0]: step["with"] for step in steps if step.get("uses", "").startswith("actions/cache/")
    }
    store, restore = by_action["actions/cache/save"], by_action["actions/cache/restore"]
    assert store["path"] == restore["path"] == "base.json"
    assert store["key"].startswith(restore["restore-keys"])


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.timeout(600)
def test_its_steps_run(workflow, tmp_path):
    try:
        Sandbox.detect()
    except SandboxUnavailable as error:
        pytest.skip(f"no sandbox here: {error}")
    fetch.ensure("smollm2-135m")
    runner = Runner(workflow, tmp_path)

    assert runner.run("push") == 0, runner.said
    assert "pip install --quiet bassline" in (tmp_path / "called").read_text()
    assert (tmp_path / "base.json").read_bytes() == (tmp_path / "candidate.json").read_bytes()
    assert not runner.summary.exists()

    assert runner.run("pull_request") == 0, runner.said  # the same configuration again
    assert "### No worse as far as 2 tasks can tell" in runner.summary.read_text()
    assert len(list(ET.parse(tmp_path / "report.xml").iter("testcase"))) == 2


@pytest.mark.slow
def test_its_comparison_fails_and_still_shows_the_report(workflow, tmp_path, world):

    for name, solved in (("base", BASE), ("candidate", CLEARLY_WORSE)):
        run_id = add(world, name, solved)
        with world.context.database.read() as session:
            (tmp_path / f"{name}.json").write_text(run_file.write(session, get_run(session, run_id)))
    runner = Runner({**workflow, "env": {**workflow["env"], "BUDGET": "3"}}, tmp_path)
    only_compare = [step for step in workflow["jobs"]["compare"]["steps"] if step.get("name") == "Compare"]
    runner.workflow = {**runner.workflow, "jobs": {"compare": {"steps": only_compare}}}
    assert runner.run("pull_request") == 3
    assert "### Worse" in runner.summary.read_text()
    (tmp_path / "base.json").unlink()
    assert runner.run("pull_request") == 0
    assert "No base run yet" in runner.summary.read_text()
