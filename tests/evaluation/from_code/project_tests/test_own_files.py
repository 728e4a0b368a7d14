"""Which files of a project's folder are stored for its tests: none that git ignores, none that looks like a secret."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from evaluation.from_code.project_tests.own_files import IGNORED, SECRET, OwnFiles, list_own_files
from evaluation.from_code.source.ignored import looks_secret
from evaluation.from_code.source.project import open_project

FILES = {
    ".gitignore": "secrets.json\nscratch/\n*.log\nlocal_*.py\n_version.py\n[unclosed\n",
    ".env": "PASSWORD=x",
    "shop.py": "X = 1\n",
    "_version.py": "version = 1\n",
    "local_settings.py": "PASSWORD = 'x'\n",
    "token.py": "KINDS = 1\n",
    "secrets.json": "{}",
    "prod.key": "x",
    "run.log": "x",
    "scratch/notes.txt": "x",
    "data/.gitignore": "!kept.log\nserver.*\n",
    "data/kept.log": "x",
    "data/server.conf": "x",
    "data/table.csv": "1,2",
}
STORED = ["data/kept.log", "data/table.csv", "shop.py", "token.py"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)


def assert_nothing_ignored_is_stored(own: OwnFiles) -> None:
    assert list(own.stored) == STORED
    ignored = {path for path, reason in own.left_out.items() if reason == IGNORED}
    assert ignored == {
        "_version.py", "data/server.conf", "local_settings.py", "run.log", "scratch/", "secrets.json",
    }  # fmt: skip
    assert (own.left_out[".env"], own.left_out["prod.key"]) == ("is hidden", SECRET)
    assert own.secret_looking == {"prod.key": 1}


def test_a_repository_and_a_folder_with_ignore_files_alone_leave_the_same_files_out(root):
    assert_nothing_ignored_is_stored(list_own_files(root))
    git(root, "init")
    assert_nothing_ignored_is_stored(list_own_files(root))


def test_without_git_the_ignore_files_count(root, monkeypatch):
    git(root, "init")
    monkeypatch.setenv("PATH", "")
    assert_nothing_ignored_is_stored(list_own_files(root))


def test_a_folder_inside_a_repository_follows_its_rules_and_what_is_tracked_is_stored(root, monkeypatch):
    git(root.parent, "init")
    git(root.parent, "add", "--force", "shop/run.log")
    (root.parent / ".gitignore").write_text("*.csv\n")
    monkeypatch.setenv("GIT_DIR", "/nowhere")  # of a hook that starts the command
    own = list_own_files(root)
    assert list(own.stored) == [name for name in sorted([*STORED, "run.log"]) if name != "data/table.csv"]


def test_a_repository_in_the_repository_has_rules_of_its_own(root):
    inner = root / "plugins"
    inner.mkdir()
    (inner / ".gitignore").write_text("private.txt\n")
    (inner / "private.txt").write_text("x")
    (inner / "plugin.py").write_text("Y = 1\n")
    git(root, "init")
    git(inner, "init")
    own = list_own_files(root)
    assert "plugins/plugin.py" in own.stored
    assert "plugins/private.txt" not in own.stored


def test_a_folder_that_a_repository_around_it_ignores_is_no_part_of_it(root):
    git(root.parent, "init")
    (root.parent / ".gitignore").write_text("*\n")
    assert_nothing_ignored_is_stored(list_own_files(root))


def test_modules_that_a_build_made_are_stored_where_tests_import_them_but_no_local_settings(root):
    imported = [str(root / name) for name in ("_version.py", "local_settings.py", "shop.py", "../elsewhere.py")]
    own = list_own_files(root, imported=imported)
    assert own.imported == ["_version.py"]
    assert "_version.py" in own.stored
    assert "local_settings.py" not in own.stored


def test_what_looks_like_a_secret_is_stored_where_the_user_wants_it(root):
    own = list_own_files(root, store_secrets=True)
    assert "prod.key" in own.stored
    assert "secrets.json" not in own.stored


def test_ignored_local_settings_are_no_source_of_tasks(root):
    project = open_project(str(root))
    assert sorted(project.modules) == ["_version", "shop", "token"]
    assert "ignored by git" in project.skipped["local_settings.py"]


@pytest.mark.parametrize(
    "name", ["a/server.key", "x.pem", "my-secrets.yml", "API_TOKEN.txt", "credentials", "prod.env"]
)
def test_names_of_secrets(name):
    assert looks_secret(name)


@pytest.mark.parametrize("name", ["token.py", "keyboard.json", "monkey.txt", "environment.yml", "settings.toml"])
def test_other_names(name):
    assert not looks_secret(name)
