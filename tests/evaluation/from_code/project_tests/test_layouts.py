"""Layouts of projects: wherever pytest is configured, the tests that run there run in the sandbox, too."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from evaluation.from_code.calls.record import record_calls
from evaluation.from_code.project_tests.covering import select_options
from evaluation.from_code.project_tests.suite import prepare_suite
from evaluation.from_code.source.find import find_functions
from evaluation.from_code.source.project import open_project
from evaluation.sandbox import Sandbox
from tests.thorough import quick_first

BUS = '''
def double(x):
    """The double.

    >>> double(2)
    4
    """
    return 2 * x
'''
TESTS = "from bus import double\n\ndef test_double():\n    assert double(1) == 2\n"
CHECKS = TESTS.replace("test_double", "check_double")
ADDOPTS = "--import-mode=importlib --nothing --strict-markers -ra"
LAYOUTS: dict[str, tuple[dict[str, str], str, tuple[str, ...], set[str]]] = {
    "test files of the same name, and an option that only a plugin knows": (
        {
            "src/bus.py": BUS,
            "a/test_bus.py": TESTS,
            "b/test_bus.py": TESTS,
            "pytest.ini": f"[pytest]\naddopts = {ADDOPTS}\npythonpath = src\n",
            "conftest.py": "def pytest_addoption(parser):\n    parser.addoption('--nothing', action='store_true')\n",
        },
        "",
        (),
        {"a/test_bus.py::test_double", "b/test_bus.py::test_double"},
    ),
    "doctests of modules": (
        {"bus.py": BUS, "pytest.ini": "[pytest]\naddopts = --doctest-modules\n"},
        "",
        (),
        {"bus.py::bus.double"},
    ),
    "a repository of packages with their own configuration": (
        {"pyproject.toml": "", "p/a/bus.py": BUS, "p/a/pytest.ini": "[pytest]\n", "p/a/tests/test_bus.py": TESTS},
        "",
        ("p/a",),
        {"p/a/tests/test_bus.py::test_double"},
    ),
    "settings of plugins that the sandbox does without, where warnings are errors": (
        {
            "bus.py": BUS,
            "test_bus.py": TESTS,
            "pytest.ini": "[pytest]\nfilterwarnings = error\njunit_duration_report = call\n",
        },
        "",
        (),
        {"test_bus.py::test_double"},
    ),
    "a package of a repository that configures all": (
        {"pytest.ini": "[pytest]\npython_functions = check_*\n", "p/a/bus.py": BUS, "p/a/tests/test_bus.py": CHECKS},
        "p/a",
        (),
        {"tests/test_bus.py::check_double"},
    ),
}


@pytest.mark.parametrize("layout", quick_first(LAYOUTS, list(LAYOUTS)[:3]))
def test_the_tests_of_a_layout_run_in_the_sandbox(layout: str, tmp_path: Path) -> None:
    files, folder, arguments, expected = LAYOUTS[layout]
    for name, text in files.items():
        path = tmp_path / "repository" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    project = open_project(str(tmp_path / "repository" / folder))
    command = [sys.executable, "-m", "pytest", "-q", *arguments]

    recording = record_calls(project, find_functions(project), [command], tmp_path / "state", 120)
    suite = prepare_suite(Sandbox.detect(), project, recording.covering)
    suite.close()

    assert (suite.refused, suite.failures) == ("", {})
    assert suite.passing == expected


def test_only_options_that_decide_how_tests_are_found_and_imported_are_kept() -> None:
    given = ["--cov=x", "-ra", "--import-mode", "importlib", "-pplugin", "-p", "no:x", "-k", "slow", "--strict-markers"]
    settings = {"python_files": ["check_*.py", "test_*.py"], "addopts": "-x", "asyncio_mode": "auto"}

    refused = ["-o", "addopts=-x", "-c", "/etc/pytest.ini", "-oaddopts=-x", "-c/etc/pytest.ini"]
    found = list(select_options([*given, "--doctest-modules", *refused], settings))

    assert found == [
        ("--import-mode", "importlib"),
        ("-p", "plugin"),
        ("-p", "no:x"),
        ("--doctest-modules",),
        ("-o", "asyncio_mode=auto"),
        ("-o", "python_files=check_*.py test_*.py"),
    ]
