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


def test_every_test_is_reported_once_and_a_file_keeps_its_process(tmp_path: Path) -> None:
    same = "import os\nseen = os.getpid()\ndef test_one(place): assert place == os.getpid()\n"
    more = "def test_two(place):\n    print('said of', __name__)\n    assert place == 0\n"
    output = run(tmp_path, **dict.fromkeys("abcdefg", same + more))

    assert read_outcomes(output) == {
        f"test_{name}.py::test_{number}": outcome
        for name in "abcdefg" for number, outcome in (("one", "PASSED"), ("two", "FAILED"))
    }  # fmt: skip
    assert all(output.count(f"said of test_{name}") == 1 for name in "abcdefg")
    ended = (tmp_path / "ended").read_text().split()
    assert len(ended) == len(set(ended)) <= 3


@pytest.mark.parametrize(
    ("end", "said"),
    [("os._exit(7)", "exit code 7"), ("os._exit(0)", "exit code 0"), ("os.kill(os.getpid(), 9)", "SIGKILL")],
)
def test_a_test_that_ends_its_process_fails_and_the_others_run(tmp_path: Path, end: str, said: str) -> None:
    broken = f"import os\ndef test_one(): pass\ndef test_two(): {end}\ndef test_three(): pass\n"
    output = run(tmp_path, a=broken, b="def test_one(): pass\n")

    assert read_outcomes(output) == {
        "test_a.py::test_one": "PASSED", "test_a.py::test_two": "FAILED", "test_a.py::test_three": "PASSED",
        "test_b.py::test_one": "PASSED",
    }  # fmt: skip
    assert f"the process that ran it ended: {said}" in output


def test_it_stops_at_the_first_failure(tmp_path: Path) -> None:
    first = "def test_one(): assert False\n"
    output = run(tmp_path, "--exitfirst", a=first + "".join(f"def test_{n}(): pass\n" for n in range(500)))

    assert "stopping after 1 failures" in output
    assert len(read_outcomes(output)) < 500


def test_warnings_are_shown(tmp_path: Path) -> None:
    warns = "import warnings\ndef test_one(): warnings.warn('old way')\n"
    output = run(tmp_path, a=warns, b="def test_one(): pass\n")

    assert "UserWarning: old way" in output


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    output = run(tmp_path, a="import nothing_of_this_name\n", b="def test_one(): pass\n")

    assert read_outcomes(output) == {"test_a.py": "ERROR"}


def test_torch_has_its_threads_in_each_process_although_it_computed_while_tests_were_collected(tmp_path: Path) -> None:
    product = "torch.ones(512, 512) @ torch.ones(512, 512)"
    test = f"import torch\nbefore = {product}\ndef test_one(): assert torch.equal(before, {product})\n"
    output = run(tmp_path, **dict.fromkeys("abc", test))

    assert set(read_outcomes(output).values()) == {"PASSED"}
