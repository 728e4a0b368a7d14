"""Which files of a folder git ignores: they are not published, and often hold secrets."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Protocol

from pathspec import GitIgnoreSpec

_TIMEOUT_S = 60
_OF_ANOTHER_REPOSITORY = frozenset(("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"))
"""Variables that git sets for its hooks, which may start this command."""


class IgnoreRules(Protocol):
    """Says of the entries of a folder whether git ignores them. A walk enters a folder before it asks about them."""

    def enter_folder(self, folder: Path) -> None:
        """Read the rules that hold from this folder on."""

    def is_ignored(self, path: Path) -> bool:
        """Whether git ignores this entry of a folder that was entered."""


def read_ignore_rules(root: Path) -> IgnoreRules:
    """The rules of git where it lists files of the folder, else those of the .gitignore files in it."""
    listed = _list_files(root)
    return GitListingRules(root, listed) if listed else GitignoreFileRules(root)


class GitListingRules:
    """Ignores what git does not list: it knows nested ignore files, global excludes and what is tracked anyway."""

    def __init__(self, root: Path, listed: list[str]) -> None:
        self._root = root
        self._known: set[Path] = set()
        self._add(root, listed)

    def enter_folder(self, folder: Path) -> None:
        """Read the list of a nested repository, of which the outer one lists only the folder."""
        if folder != self._root and (folder / ".git").exists():
            self._add(folder, _list_files(folder))

    def is_ignored(self, path: Path) -> bool:
        """Whether git lists neither this file nor one in this folder."""
        return path not in self._known

    def _add(self, folder: Path, listed: list[str]) -> None:
        for name in listed:
            path = folder / name
            while path != folder and path not in self._known:
                self._known.add(path)
                path = path.parent


class GitignoreFileRules:
    """Ignores what the .gitignore files of the folder and its subfolders name; the nearest file decides."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._specs: dict[Path, GitIgnoreSpec] = {}

    def enter_folder(self, folder: Path) -> None:
        """Read the folder's .gitignore."""
        try:
            lines = (folder / ".gitignore").read_text("utf-8", "surrogateescape").splitlines()
        except OSError:
            return
        self._specs[folder] = GitIgnoreSpec.from_lines(filter(_is_pattern, lines))

    def is_ignored(self, path: Path) -> bool:
        """Whether the last pattern that fits in the nearest file that has one ignores the path."""
        for folder in path.parents:
            if (spec := self._specs.get(folder)) is not None:
                name = path.relative_to(folder).as_posix() + ("/" if path.is_dir() else "")
                if (include := spec.check_file(name).include) is not None:
                    return include
            if folder == self._root:
                break
        return False


def _is_pattern(line: str) -> bool:
    """Whether a line can be read; git passes over others."""
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def _list_files(folder: Path) -> list[str]:
    """The tracked files and those that git would add, relative to the folder; none where git does not say."""
    listed = run_git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return [name.rstrip("/") for name in listed.split("\0") if name]


def run_git(folder: Path, *arguments: str) -> str:
    """What git prints about the repository of a folder, "" where it fails."""
    environment = {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER_REPOSITORY}
    command = ["git", "-C", str(folder), "-c", "core.fsmonitor=false", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=True, env=environment)
    except (OSError, subprocess.SubprocessError):
        return ""
    return os.fsdecode(done.stdout)
