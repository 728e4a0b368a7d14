"""Which files of a folder git ignores, and which have names that look like secrets: neither are to be published."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from pathspec import GitIgnoreSpec

_TIMEOUT_S = 60
_OF_ANOTHER_REPOSITORY = frozenset(("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"))
"""Variables that git sets for its hooks, which may start this command."""
_PARTS = re.compile(r"secret|credential|passw(or)?d|api_?key|private_?key")
_WORDS = frozenset((
    "key", "keys", "pem", "token", "tokens", "env", "pgpass", "netrc", "keystore", "jks", "p12", "pfx", "rsa",
    "ed25519",
))  # fmt: skip
_LOCAL_SETTINGS = frozenset(("local", "settings", "config"))
_SOURCE = (".py", ".pyi", ".pyx", ".pxd", ".so", ".c", ".h", ".js", ".ts", ".css", ".html", ".md", ".rst")
"""Source and documents that name a secret seldom hold one: token.py, password_reset.html."""


def read_ignore_rules(root: Path) -> GitListingRules | GitignoreFileRules:
    """The rules of git where it lists files of the folder, else those of the .gitignore files in it."""
    listed = _list_files(root)
    return GitListingRules(root, listed) if listed else GitignoreFileRules(root)


class GitListingRules:
    """Ignores what git does not list: it knows nested ignore files, global excludes and what is tracked anyway.

    A walk enters a folder before it asks about the entries.
    """

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


def looks_secret(path: str, is_ignored: bool = False) -> bool:
    """Whether a file's name says that it holds a secret. Among ignored files, source and settings count too."""
    name = path.rpartition("/")[2].lower()
    if name.endswith(_SOURCE) and not is_ignored:
        return False
    words = set(re.split(r"[^a-z0-9]+", name))
    return bool(_PARTS.search(name) or words & _WORDS or (is_ignored and words & _LOCAL_SETTINGS))
