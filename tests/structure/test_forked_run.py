"""The suite's processes report every test once, whatever a test does to its process."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHARED = """
import os, pytest

@pytest.fixture(scope="session")
def place():
    yield os.getpid()
    with open("ended", "a") as file:
        file.write(f"{os.getpid()}\\n")
"""


ENDS = {
    "a": ("os._exit(7)", "exit code 7"),
    "b": ("os._exit(0)", "exit code 0"),
    "c": ("os.kill(os.getpid(), 9)", "SIGKILL"),
}
"""By the name of a file: how a test ends its process, and what the report says of it."""


def run(folder: Path, *options: str, **files: str) -> str:
    (folder / "conftest.py").write_text(f"from tests.forked_run import *\n{SHARED}")
    for name, content in files.items():
        (folder / f"test_{name}.py").write_text(content)
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "--processes", "3", *options]
    environment = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    return done.stdout + done.stderr


def read_outcomes(output: str) -> dict[str, str]:
    found = re.findall(r"^(PASSED|FAILED|ERROR|SKIPPED) (?:\[1\] )?(test_\w+\.py(?:::\w+)?)", output, re.M)
    assert max(Counter(name for _, name in found).values()) == 1, output
    return {name: outcome for outcome, name in found}


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder and the output of a run some of whose tests fail, warn or end their process."""
    folder = tmp_path_factory.mktemp("broken")
    same = "import os\nseen = os.getpid()\ndef test_one(place): assert place == os.getpid()\n"
    more = "def test_two(place):\n    print('said of', __name__)\n    assert place == 0\n"
    ends = {
        name: f"import os\ndef test_one(): pass\ndef test_two(): {end}\ndef test_three(): pass\n"
        for name, (end, _) in ENDS.items()
    }
    warns = "import warnings\ndef test_one(): warnings.warn('old way')\n"
    return folder, run(folder, **dict.fromkeys("hijklmn", same + more), **ends, w=warns)


def test_every_test_is_reported_once_and_a_file_keeps_its_process(broken: tuple[Path, str]) -> None:
    folder, output = broken
    expected = {(name, "one"): "PASSED" for name in "hijklmnw"} | {(name, "two"): "FAILED" for name in "hijklmn"}
    for name in ENDS:
        expected |= {(name, "one"): "PASSED", (name, "two"): "FAILED", (name, "three"): "PASSED"}
    assert read_outcomes(output) == {f"test_{name}.py::test_{test}": said for (name, test), said in expected.items()}
    assert all(output.count(f"said of test_{name}") == 1 for name in "hijklmn")
    ended = (folder / "ended").read_text().split()
    assert len(ended) == len(set(ended)) <= 3 + len(ENDS)


@pytest.mark.parametrize("name", ENDS)
def test_what_ended_a_process_is_said(broken: tuple[Path, str], name: str) -> None:
    told = broken[1].partition(f"test_{name}.py::test_two")[2] or broken[1]
    assert f"the process that ran it ended: {ENDS[name][1]}" in told


def test_warnings_are_shown(broken: tuple[Path, str]) -> None:
    assert "UserWarning: old way" in broken[1]


def test_it_stops_at_the_first_failure(tmp_path: Path) -> None:
    first = "def test_one(): assert False\n"
    output = run(tmp_path, "--exitfirst", a=first + "".join(f"def test_{n}(): pass\n" for n in range(500)))

    assert "stopping after 1 failures" in output
    assert len(read_outcomes(output)) < 500


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    output = run(tmp_path, a="import nothing_of_this_name\n", b="def test_one(): pass\n")

    assert read_outcomes(output) == {"test_a.py": "ERROR"}


def test_torch_has_its_threads_in_each_process_although_it_computed_while_tests_were_collected(tmp_path: Path) -> None:
    product = "torch.ones(512, 512) @ torch.ones(512, 512)"
    test = f"import torch\nbefore = {product}\ndef test_one(): assert torch.equal(before, {product})\n"
    output = run(tmp_path, **dict.fromkeys("abc", test))

    assert set(read_outcomes(output).values()) == {"PASSED"}
