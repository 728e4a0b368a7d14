"""The folder in which a project's tests may write: what works there, what does not, and that no job leaves anything."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from evaluation.project_tests.running import LIMITS, SuiteOutcomes
from evaluation.project_tests.spec import ProjectTests
from evaluation.sandbox import Sandbox
from evaluation.verdicts import Status
from tests.evaluation.project_tests.conftest import SHOP, TOTAL
from tests.evaluation.project_tests.projects import Packed
from tests.evaluation.sandboxes import sandbox_or_skip

MODULE = "def double(x):\n    return 2 * x\n"
TESTS = """
import asyncio
import os
import pathlib
import shutil
import sqlite3
import subprocess
import tempfile

import pytest

import m


def test_files(tmp_path):
    (tmp_path / "a").write_text("x")
    (tmp_path / "d").mkdir()
    (tmp_path / "a").rename(tmp_path / "d" / "b")
    shutil.copytree(tmp_path / "d", tmp_path / "e")
    (tmp_path / "link").symlink_to(tmp_path / "d")
    assert (tmp_path / "link").resolve() == tmp_path / "d"
    assert (tmp_path / "e" / "b").read_text() == "x"
    shutil.rmtree(tmp_path / "e")


def test_sqlite(tmp_path):
    for mode in ("delete", "wal"):
        first = sqlite3.connect(tmp_path / mode)
        first.execute(f"pragma journal_mode={mode}")
        first.execute("create table t(a)")
        first.execute("insert into t values(?)", (m.double(1),))
        first.commit()
        assert sqlite3.connect(tmp_path / mode).execute("select a from t").fetchall() == [(2,)]


def test_temporary_files():
    with tempfile.NamedTemporaryFile("w+") as file, tempfile.TemporaryFile() as unnamed:
        file.write("a")
        file.flush()
        unnamed.write(b"a")
        assert pathlib.Path(file.name).read_text() == "a"
    assert pathlib.Path.home().is_dir()


def test_threads_of_asyncio():
    async def main():
        return await asyncio.to_thread(m.double, 2)

    assert asyncio.run(main()) == 4


def test_nothing_can_be_executed(tmp_path):
    (tmp_path / "script").write_text("#!/bin/sh")
    (tmp_path / "script").chmod(0o755)
    with pytest.raises(OSError):
        subprocess.run([tmp_path / "script"])


def test_nothing_else_can_be_changed():
    for path in ("/tmp/x", "/x", m.__file__, os.__file__):
        for change in (lambda: open(path, "a"), lambda: os.utime(path), lambda: os.chmod(path, 0o777)):
            with pytest.raises(OSError):
                change()


def test_the_size_is_limited(tmp_path):
    with pytest.raises(OSError):
        for number in range(10):
            (tmp_path / str(number)).write_bytes(bytes(15 * 2**20))


@pytest.mark.parametrize("time", [1, 2])
def test_nothing_is_left(time):
    assert os.listdir(os.environ["TMPDIR"]) == []


def test_without_a_file():
    assert m.double(1) == 2


def test_deep_folders():
    os.chdir(os.environ["TMPDIR"])
    os.symlink("/", "root")
    for _ in range(2000):
        os.mkdir("d", 0o300)
        os.chdir("d")
    os.chmod(os.environ["TMPDIR"], 0)


def test_too_many_files():
    for number in range(10**7):
        open(f"{os.environ['TMPDIR']}/{number}", "w").close()
"""
WORKING = re.findall(r"^def (test_\w+)", TESTS, re.MULTILINE)[:7]
Run = Callable[..., SuiteOutcomes]


@pytest.fixture(scope="module")
def run(sandbox: Sandbox) -> Iterator[Run]:
    if not sandbox.tier.has_scratch:
        pytest.skip(f"the tier {sandbox.tier_name} has no scratch folder")
    packed = Packed({"m.py": MODULE, "test_m.py": TESTS}, sandbox)

    def run_tests(*names: str) -> SuiteOutcomes:
        tests = [f"test_m.py::{name}" for name in names]
        return packed.judge.run(MODULE, packed.spec("m.py", "double", *tests), tests, LIMITS, stop_early=False)

    yield run_tests
    packed.judge.close()


def test_tests_write_in_their_folder_and_nowhere_else(run: Run) -> None:
    outcomes = run(*WORKING)

    assert (outcomes.failed, outcomes.result.status, outcomes.wrote) == ({}, Status.PASSED, True)


def test_each_run_starts_with_an_empty_folder(run: Run) -> None:
    run("test_deep_folders")

    outcomes = run("test_nothing_is_left[1]", "test_nothing_is_left[2]")

    assert (outcomes.failed, outcomes.result.status) == ({}, Status.PASSED)


def test_tests_that_do_not_write_say_so(run: Run) -> None:
    run("test_files")

    assert run("test_without_a_file").wrote is False
    assert run("test_temporary_files").wrote is True


def test_the_number_of_files_is_limited(run: Run) -> None:
    outcomes = run("test_too_many_files")

    assert outcomes.result.status == Status.OUTPUT_LIMIT
    assert "10000 files" in outcomes.result.detail


def test_where_no_folder_can_be_given_the_sandbox_says_so_and_blames_no_answer() -> None:
    sandbox = sandbox_or_skip("landlock")
    packed = Packed(SHOP, sandbox)
    spec: ProjectTests = replace(packed.spec("shop.py", "Basket.total", *TOTAL), writes=True)

    result = packed.judge.judge("def total(self, shipping=0.0):\n    return 0\n", spec)

    assert (result.status, result.lasting) == (Status.SANDBOX_ERROR, True)
    assert "bubblewrap" in result.detail
