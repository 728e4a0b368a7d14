"""Where a project's source comes from: commit, version and licence file. No times and no absolute paths."""

from __future__ import annotations

import re
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

from evaluation.from_code.source.project import Project

_LICENCES = re.compile(r"(?i)(licen[cs]e|copying|unlicense)([-.].*)?")


@dataclass(frozen=True)
class Origin:
    """Where the source of a project comes from; "" for what is unknown."""

    commit: str  # of the git repository, with `-dirty` where files differ from it
    version: str  # of the distribution
    licence: str  # a file in the project's folder


def find_origin(project: Project) -> Origin:
    """The origin of a project's source."""
    if project.version:  # the folder of installed packages is not its repository
        return Origin("", project.version, "")
    return Origin(_find_commit(project), _read_version(project.root), _find_licence(project.root))


def _find_commit(project: Project) -> str:
    paths = sorted(module.path for module in project.modules.values())
    head = _run_git(project.root, "rev-parse", "HEAD")
    tracked = _run_git(project.root, "ls-files", "--", *paths[:1])  # the folder may lie ignored in another repository
    if not head or not tracked:
        return ""
    changed = _run_git(project.root, "status", "--porcelain", "--untracked-files=no", "--", ".")
    return head + ("-dirty" if changed else "")


def _run_git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _read_version(root: Path) -> str:
    try:
        declared = tomllib.loads((root / "pyproject.toml").read_text("utf-8")).get("project", {}).get("version")
        if isinstance(declared, str):
            return declared
    except (OSError, ValueError):
        pass
    try:
        found = re.search(r"^Version: (\S+)", (root / "PKG-INFO").read_text("utf-8"), re.MULTILINE)
    except (OSError, ValueError):
        return ""
    return found[1] if found else ""


def _find_licence(root: Path) -> str:
    try:
        names = sorted(path.name for path in root.iterdir() if path.is_file() and _LICENCES.fullmatch(path.name))
    except OSError:
        return ""
    return names[0] if names else ""
