"""Packages that the operator allows: programs import them, and the isolation stays as it was."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from evaluation.sandbox import (
    Limits,
    PackagesError,
    SandboxJob,
    packages,
    stage_packages,
)
from tests.evaluation.sandboxes import sandbox_or_skip
from tests.thorough import tiers

LIMITS = Limits(cpu_s=2, wall_s=8.0)
PROGRAM = "import packaging.version\ndef newer(a, b):\n    v = packaging.version.Version\n    return v(a) > v(b)\n"
TEST = "def check(candidate):\n    assert candidate('1.10', '1.9')\n"
JOB = SandboxJob(PROGRAM, "newer", "", TEST)


@pytest.fixture(scope="module", params=tiers())
def equipped(request):
    found = sandbox_or_skip(request.param, packages=stage_packages(("packaging",)))
    yield found
    found.close()


def test_a_program_imports_an_allowed_package_and_only_then(equipped, sandbox):
    assert equipped.run(JOB, LIMITS).status == "passed"
    assert "No module named 'packaging'" in sandbox.run(JOB, LIMITS).detail


def test_every_probe_is_blocked_with_the_packages_in_place(equipped):
    assert equipped.verify() == []
    assert "packaging" in equipped.describe()["packages"]


def test_other_installed_packages_stay_hidden(equipped):
    job = SandboxJob("import click\ndef newer(a, b):\n    return True\n", "newer", "", TEST)
    assert "No module named 'click'" in equipped.run(job, LIMITS).detail


def test_the_package_cannot_be_changed(equipped):
    program = (
        "import packaging, os\ndef newer(a, b):\n    try:\n        open(packaging.__file__, 'r+')\n"
        "    except OSError:\n        return True\n"
    )
    assert equipped.run(SandboxJob(program, "newer", "", TEST), LIMITS).status == "passed"


def test_the_checker_does_not_get_the_packages(equipped):
    test = "import packaging\n" + TEST
    assert "No module named 'packaging'" in equipped.run(SandboxJob(PROGRAM, "newer", "", test), LIMITS).detail


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("numpy", "has compiled modules"), ("no_such_package_x", "is not installed"), ("../up", "is not an import name")],
)
def test_what_cannot_be_allowed_is_one_sentence_with_the_remedy(name, sentence):
    with pytest.raises(PackagesError, match=sentence):
        stage_packages((name,))


def test_a_copy_that_somebody_changed_is_made_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(packages.tempfile, "gettempdir", lambda: str(tmp_path))
    stage_packages.cache_clear()
    first = stage_packages(("packaging",))
    module = Path(first.folder) / "packaging" / "version.py"
    whole = module.read_bytes()
    module.write_bytes(b"changed = True\n")
    (Path(first.folder) / "more.py").write_text("")
    stage_packages.cache_clear()
    assert stage_packages(("packaging",)) == first
    assert module.read_bytes() == whole
    assert not (Path(first.folder) / "more.py").exists()
    stage_packages.cache_clear()


def test_processes_that_need_a_copy_at_once_all_keep_the_first(tmp_path, monkeypatch):
    """Each may start sandboxes with its folder right away, and these would see an empty one if it were replaced."""
    monkeypatch.setattr(packages.tempfile, "gettempdir", lambda: str(tmp_path))
    files = {f"package/module_{number}.py": b"" for number in range(500)}
    forking = multiprocessing.get_context("fork")
    start, found = forking.Barrier(4), forking.SimpleQueue()

    def stage() -> None:
        start.wait()
        inode = 0
        try:
            inode = Path(packages.stage_files("packages", files)).stat().st_ino
        finally:
            found.put(inode)

    processes = [forking.Process(target=stage) for _ in range(4)]
    for process in processes:
        process.start()
    inodes = [found.get() for _ in processes]
    for process in processes:
        process.join()
    assert inodes == [Path(packages.stage_files("packages", files)).stat().st_ino] * 4


def test_a_copy_that_cannot_be_made_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(packages.tempfile, "gettempdir", lambda: str(tmp_path / "missing" / "file"))
    (tmp_path / "missing").write_text("")
    with pytest.raises(PackagesError, match="cannot be made: Not a directory: delete it, or set TMPDIR"):
        packages.stage_files("packages", {"module.py": b""})


def test_no_names_are_no_packages():
    assert stage_packages(()) is None
