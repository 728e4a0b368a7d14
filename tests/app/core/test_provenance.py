"""The provenance of figures: the commit is that of the checkout the code runs from."""

from __future__ import annotations

import subprocess
from pathlib import Path

from app.core import provenance


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=e@x", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


def test_the_commit_of_another_project_around_an_installed_package_is_not_ours(tmp_path, monkeypatch):
    package = tmp_path / "venv" / "core"
    package.mkdir(parents=True)
    module = package / "provenance.py"
    module.write_text("")
    monkeypatch.setattr(provenance, "__file__", str(module))
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "theirs")
    assert provenance._read_git_commit() is None
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "ours")
    assert provenance._read_git_commit() == git(tmp_path, "rev-parse", "HEAD")
