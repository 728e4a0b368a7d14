"""The recorder runs in a project's interpreter: nothing but Python 3.9 and its standard library."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from evaluation.from_code import recording
from evaluation.from_code.calls.record import record_calls
from evaluation.from_code.recording import values
from evaluation.from_code.source.find import find_functions
from tests.thorough import quick_first

FILES = sorted(Path(recording.__file__).parent.glob("*.py"))
MINORS = range(9, 16)
PYTEST_PLUGIN = "time_limit.py"
"""It is read by pytest alone."""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_its_source_is_that_of_python_3_9_and_imports_the_standard_library_alone(file):
    tree = ast.parse(file.read_text("utf-8"), feature_version=(3, 9))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported = {alias.name.partition(".")[0] for alias in node.names}
            assert imported - ({"pytest"} if file.name == PYTEST_PLUGIN else set()) <= sys.stdlib_module_names
        if isinstance(node, ast.ImportFrom) and not node.level:
            assert (node.module or "").partition(".")[0] in sys.stdlib_module_names | {"bassline_recording"}


def installed(minor):
    """A Python of this version: on PATH, or beside the one that runs the tests."""
    beside = [str(path) for path in Path(sys.base_prefix).parent.glob(f"3.{minor}.*/bin/python")]
    for python in filter(None, (shutil.which(f"python3.{minor}"), *beside)):
        if subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0:
            return python
    return None


@pytest.mark.parametrize("minor", quick_first(MINORS, [MINORS[0], MINORS[-1]]))
def test_it_records_under_every_python_of_this_machine(minor, opened, tmp_path):
    python = installed(minor)
    if python is None:
        pytest.skip(f"there is no Python 3.{minor} here")
    source = (
        'def f(a, b=2, *, c=None):\n    "."\n    if c:\n        raise KeyError(c)\n    a.append(b)\n'
        '    return len(a)\n\n\ndef g(n):\n    "."\n    for i in range(n):\n        yield i\n    return 1\n'
    )
    project = opened(shop=source)
    test = tmp_path / "run_tests.py"
    test.write_text(
        "import shop\nshop.f([1])\nlist(shop.g(2))\ntry:\n    shop.f([], c=1)\nexcept KeyError:\n    pass\n"
    )
    recording = record_calls(project, find_functions(project), [[python, str(test)]], tmp_path / "state", 60)
    assert recording.exit_code == 0, recording.output
    f, g = recording.calls["shop.py:f:1"], recording.calls["shop.py:g:9"]
    assert sorted((values.read(call.call), call.returned, call.raised[:1]) for call in f) == [
        ((([],), {"c": 1}), None, ("KeyError",)),
        ((([1],), {}), "2", ()),
    ]
    assert [call.iterator for call in g] == ["generator"]
