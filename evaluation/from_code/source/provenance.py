"""Where a project's source comes from: commit, version and licence file. No times and no absolute paths."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from evaluation.from_code.source.ignored import run_git
from evaluation.from_code.source.project import Project, read_metadata

_LICENCES = re.compile(r"(?i)(licen[cs]e|copying|unlicense)([-.].*)?")


@dataclass(frozen=True)
class Origin:
    """Where the source of a project comes from; "" for what is unknown."""

    commit: str  # of the git repository, with `-dirty` where files differ from it
    version: str  # of the distribution
    licence: str  # a file in the project's folder


def find_origin(project: Project) -> Origin:
    """The origin of a project's source."""
    return Origin(_find_commit(project), read_metadata(project.root, "version"), _find_licence(project.root))


def _find_commit(project: Project) -> str:
    paths = sorted(module.path for module in project.modules.values())
    head = run_git(project.root, "rev-parse", "HEAD").strip()
    tracked = run_git(project.root, "ls-files", "--", *paths[:1])  # the folder may lie ignored in another repository
    if not head or not tracked:
        return ""
    changed = run_git(project.root, "status", "--porcelain", "--untracked-files=no", "--", ".")
    return head + ("-dirty" if changed else "")


def _find_licence(root: Path) -> str:
    try:
        names = sorted(path.name for path in root.iterdir() if path.is_file() and _LICENCES.fullmatch(path.name))
    except OSError:
        return ""
    return names[0] if names else ""
