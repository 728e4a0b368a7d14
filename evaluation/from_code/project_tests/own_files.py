"""The files of a project's folder that are stored for its tests, and those that are left out with the reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evaluation.from_code.source.ignored import looks_secret, read_ignore_rules

MAX_FILE_BYTES = 16 * 2**20
IGNORED = "is ignored by git"
SECRET = "has a name that looks like a secret"
_SKIPPED_FOLDERS = frozenset(("__pycache__", "node_modules", "site-packages", "build", "dist", "docs", "doc"))
_MODULES = (".py", ".so")


@dataclass
class OwnFiles:
    """Files by their path from the project's folder. `stored` and `secret_looking` have sizes in bytes, `left_out`
    reasons; a folder that is left out ends with a slash. `imported` are stored although git ignores them."""

    stored: dict[str, int] = field(default_factory=dict)
    secret_looking: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    imported: list[str] = field(default_factory=list)

    @property
    def total_bytes(self) -> int:
        """The size of what is stored."""
        return sum(self.stored.values())

    def find_largest(self, count: int) -> list[tuple[str, int]]:
        """The largest stored files with their sizes."""
        return sorted(self.stored.items(), key=lambda each: (-each[1], each[0]))[:count]


def list_own_files(root: Path, store_secrets: bool = False, imported: Sequence[str] = ()) -> OwnFiles:
    """The files to store: none that git ignores, no hidden ones, no environments, no links, nothing that is large.

    Files that look like secrets are left out unless `store_secrets`. Of what git ignores, the modules that the tests
    `imported` are stored all the same, because a build makes some of a project's modules.
    """
    found = OwnFiles()
    rules = read_ignore_rules(root)
    todo = [root]
    while todo:
        folder = todo.pop()
        rules.enter_folder(folder)
        for path in sorted(folder.iterdir()):
            name = path.relative_to(root).as_posix()
            reason = _find_exclusion(path) or (IGNORED if rules.is_ignored(path) else "")
            if reason:
                if not name.endswith((".pyc", "__pycache__")):
                    found.left_out[f"{name}/" if path.is_dir() else name] = reason
            elif path.is_dir():
                todo.append(path)
            elif looks_secret(name):
                found.secret_looking[name] = path.stat().st_size
            elif path.is_file():
                found.stored[name] = path.stat().st_size
    for path in _find_ignored_modules(root, imported, found):
        name = path.relative_to(root).as_posix()
        found.stored[name] = path.stat().st_size
        found.imported.append(name)
        found.left_out.pop(name, None)
    if store_secrets:
        found.stored |= found.secret_looking
    else:
        found.left_out |= dict.fromkeys(found.secret_looking, SECRET)
    found.stored = dict(sorted(found.stored.items()))
    found.left_out = dict(sorted(found.left_out.items()))
    return found


def _find_exclusion(path: Path) -> str:
    """Why an entry of a folder is never stored, "" for others."""
    if path.name.startswith("."):
        return "is hidden"
    if path.is_symlink():
        return "is a link"
    if path.is_dir():
        if (path / "pyvenv.cfg").exists():
            return "is an environment"
        package = (path / "__init__.py").exists()
        return "is a folder that tests seldom read" if path.name in _SKIPPED_FOLDERS and not package else ""
    if path.suffix == ".pyc" or not path.is_file():
        return "has no content to store"
    return f"is larger than {MAX_FILE_BYTES // 2**20} MiB" if path.stat().st_size > MAX_FILE_BYTES else ""


def _find_ignored_modules(root: Path, imported: Sequence[str], found: OwnFiles) -> Iterator[Path]:
    """The imported modules in the folder that git ignores, and nothing else excludes."""
    for file in sorted({Path(name).resolve() for name in imported}):
        if not (file.is_relative_to(root) and file.name.endswith(_MODULES) and file.is_file()):
            continue
        name = file.relative_to(root).as_posix()
        known = name in found.stored or name in found.secret_looking
        parts = [file, *(folder for folder in file.parents if folder.is_relative_to(root) and folder != root)]
        if not (known or looks_secret(name, is_ignored=True) or any(map(_find_exclusion, parts))):
            yield file
