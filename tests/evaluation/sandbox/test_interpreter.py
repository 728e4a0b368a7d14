"""Which Python runs inside the sandbox: one that is new enough and that an unprivileged user can start."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluation.sandbox import SandboxUnavailableError, interpreter
from evaluation.sandbox import inside as inside_package
from evaluation.sandbox.sandbox import Sandbox


@pytest.fixture
def old_python(monkeypatch) -> Iterator[Path]:
    """A `python3` of version 3.9, first on PATH and this process's own, in a folder that everyone can read."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    stub = folder / "python3"
    facts = {"executable": str(stub), "version": [3, 9, 18], "paths": []}
    stub.write_text(f"#!/bin/sh\necho '{json.dumps(facts)}'\n")
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setattr(sys, "executable", str(stub))
    yield stub
    shutil.rmtree(folder)


def test_a_python_that_is_too_old_is_passed_over(old_python):
    found = interpreter.find_interpreter()
    assert found.executable != str(old_python)
    assert found.version >= interpreter.OLDEST


def test_where_every_python_is_too_old_one_sentence_says_what_was_found(old_python, monkeypatch):
    real = subprocess.run

    def only_old_ones(command, **options):
        return real([str(old_python), *command[1:]], **options)

    monkeypatch.setattr(interpreter.subprocess, "run", only_old_ones)
    with pytest.raises(SandboxUnavailableError) as raised:
        Sandbox._choose([], None)
    sentence = str(raised.value)
    assert sentence.startswith("No sandbox: no Python 3.10 or later that an unprivileged user can start: ")
    assert f"{old_python} is Python 3.9.18" in sentence
    assert "\n" not in sentence


@pytest.mark.parametrize("file", sorted(Path(inside_package.__file__).parent.glob("*.py")), ids=lambda file: file.name)
def test_the_code_inside_compiles_under_the_oldest_python(file):
    oldest = ".".join(map(str, interpreter.OLDEST))
    beside = [str(path) for path in Path(sys.base_prefix).parent.glob(f"{oldest}.*/bin/python")]
    python = next(filter(None, (shutil.which(f"/usr/bin/python{oldest}"), *beside)), None)
    if python is None:
        pytest.skip(f"there is no Python {oldest} here")
    subprocess.run([python, "-c", "import sys; compile(open(sys.argv[1]).read(), 'x', 'exec')", str(file)], check=True)
