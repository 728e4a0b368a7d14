"""Which Python files of a folder are the project's source; skipped files have a reason."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from evaluation.from_code.source.ignored import looks_secret, read_ignore_rules

_TESTS = frozenset(("test", "tests"))
_NOT_IMPORTED = frozenset(
    ("doc", "docs", "example", "examples", "benchmark", "benchmarks", "scripts", "testing", "tools")
)
"""Folders that hold files to run or to read, unless they are packages."""
_INSTALLED = frozenset(("site-packages", "dist-packages", "node_modules"))
_VENDORED = frozenset(("vendor", "vendored", "_vendor"))
_FOREIGN = ("vendor.txt", "*.dist-info", "*.LICENSE*", "LICENSE*", "*/LICENSE*", "*/COPYING*")
"""Marks of a vendored folder that holds other projects' code."""
_OF_TOOLS = frozenset(("setup.py", "noxfile.py", "tasks.py", "fabfile.py"))


def iterate_source_files(root: Path, skipped: dict[str, str]) -> Iterator[Path]:
    """The source files in a folder and below: those of a folder by name, then those of its subfolders.

    What is skipped is added to `skipped` with the reason: a file, or a folder that holds Python files, by its path from
    `root`. Modules that git ignores are source too, since a build makes some, but not local settings and secrets:
    tasks store the source of the modules that they need.
    """
    rules = read_ignore_rules(root)
    for current, folders, files in os.walk(root):
        here = Path(current)
        rules.enter_folder(here)
        kept = []
        for name in sorted(folders):
            reason = _explain_skipped_folder(here / name)
            if not reason:
                kept.append(name)
            elif next((here / name).rglob("*.py"), None) is not None:
                skipped[(here / name).relative_to(root).as_posix()] = reason
        folders[:] = kept
        for name in sorted(files):
            if name.endswith(".py"):
                reason = _explain_skipped_file(here / name)
                if looks_secret(name, is_ignored=True) and rules.is_ignored(here / name):
                    reason = "is ignored by git, and its name looks like a secret or local settings"
                if reason:
                    skipped[(here / name).relative_to(root).as_posix()] = reason
                else:
                    yield here / name


def _explain_skipped_folder(folder: Path) -> str:
    name = folder.name
    if (folder / "pyvenv.cfg").exists() or (folder / "conda-meta").is_dir() or (folder / "bin" / "activate").exists():
        return "is an environment"
    if name.startswith(".") or name.endswith((".egg-info", ".dist-info")) or name == "__pycache__":
        return "is hidden or holds metadata"
    if name in _INSTALLED:
        return "holds installed packages"
    if name in _TESTS:
        return "holds tests"
    if name in _VENDORED and any(next(folder.glob(pattern), None) for pattern in _FOREIGN):
        return "holds other projects' code with its licences"
    if (folder / "__init__.py").exists() or (folder.parent / "__init__.py").exists():
        return ""
    if name == "build" and any(next(folder.glob(pattern), None) for pattern in ("lib", "lib.*", "bdist.*")):
        return "is what a build left"
    return "is not a package" if name in _NOT_IMPORTED else ""


def _explain_skipped_file(file: Path) -> str:
    name = file.name
    if file.is_symlink():
        return "is a link"
    if name.startswith("test_") or name.endswith("_test.py") or name in ("tests.py", "conftest.py"):
        return "holds tests"
    if name == "__main__.py":
        return "is run, not imported"
    if name in _OF_TOOLS and not (file.parent / "__init__.py").exists():
        return "belongs to a tool"
    return ""
