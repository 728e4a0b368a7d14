"""Provenance: the commit of the project's own repository, its version and licence."""

from __future__ import annotations

import subprocess

from evaluation.from_code.source.project import find_origin


def git(folder, *arguments):
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    done = subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_commit_and_whether_files_differ_from_it(opened):
    project = opened(
        {"LICENSE.txt": "MIT", "pyproject.toml": '[project]\nname = "shop"\nversion = "1.2"\n'}, m="x = 1\n"
    )
    assert find_origin(project).commit == ""
    git(project.root, "init", "-q")
    git(project.root, "add", ".")
    git(project.root, "commit", "-qm", "first")
    head = git(project.root, "rev-parse", "HEAD")
    origin = find_origin(project)
    assert (origin.commit, origin.version, origin.licence) == (head, "1.2", "LICENSE.txt")
    (project.root / "m.py").write_text("x = 2\n")
    assert find_origin(project).commit == f"{head}-dirty"


def test_the_commit_is_not_that_of_the_repository_whose_hook_starts_the_command(opened, monkeypatch):
    project = opened(m="x = 1\n")
    git(project.root, "init", "-q")
    git(project.root, "add", ".")
    git(project.root, "commit", "-qm", "first")
    head = git(project.root, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert find_origin(project).commit == head


def test_a_folder_that_another_repository_ignores_has_no_commit(opened, tmp_path):
    project = opened({"PKG-INFO": "Name: shop\nVersion: 3.0\n"}, m="x = 1\n")
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text("shop\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    origin = find_origin(project)
    assert (origin.commit, origin.version, origin.licence) == ("", "3.0", "")
