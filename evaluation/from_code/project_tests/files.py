"""The files that a project's tests need, as two archives: the project's own, and the installed packages."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluation.from_code.project_tests.covering import (
    CallsByTest,
    find_editable_project,
    find_used_packages,
    iterate_package_files,
)
from evaluation.from_code.project_tests.own_files import MAX_FILE_BYTES, OwnFiles, list_own_files
from evaluation.from_code.source.project import Project
from evaluation.project_tests.archive import MAX_BYTES, ArchiveError, is_relative, pack
from evaluation.sandbox.packages import hash_files

_WITHOUT = frozenset(
    ("pip", "setuptools", "wheel", "pytest_xdist", "execnet", "pytest_cov", "coverage", "pytest_randomly")
)
"""Distributions that a test run loads and that no judgement needs."""
_METADATA = frozenset(("METADATA", "entry_points.txt", "top_level.txt"))
"""Metadata files that are kept; the others name paths of the machine."""


@dataclass(frozen=True)
class SuiteArchives:
    """Archives by their files' sha256 and what they hold. `distributions` are names with versions."""

    project: str
    installed: str
    archives: dict[str, bytes]
    distributions: tuple[str, ...]
    has_compiled: bool
    paths: tuple[str, ...]
    own: OwnFiles


def pack_archives(project: Project, covering: CallsByTest, store_secrets: bool = False) -> SuiteArchives:
    """The archives. Raises ArchiveError, with one sentence, where their files cannot be packed."""
    roots = [root.resolve() for root in project.import_roots]
    if any(not root.is_relative_to(project.root) for root in roots):
        raise ArchiveError("the project's folder is itself a package: give the folder above it")
    own = list_own_files(project.root, store_secrets, covering.files)
    installed, names = read_installed_files(project, covering)
    archives, hashes = {}, []
    for files in (_read_own_files(project.root, own), installed):
        if sum(map(len, files.values())) > MAX_BYTES:
            raise ArchiveError(f"the tests need files of more than {MAX_BYTES // 2**20} MiB ({', '.join(names)})")
        hashes.append(hash_files(files))
        archives[hashes[-1]] = pack(files)
    relative = {root.relative_to(project.root).as_posix() for root in roots}
    paths = tuple(dict.fromkeys([*sorted(relative - {"."}), ""]))
    has_compiled = any(path.endswith(".so") for path in installed)
    return SuiteArchives(hashes[0], hashes[1], archives, names, has_compiled, paths, own)


def _read_own_files(root: Path, own: OwnFiles) -> dict[str, bytes]:
    if own.total_bytes > MAX_BYTES:
        raise ArchiveError(f"the project's files have more than {MAX_BYTES // 2**20} MiB")
    return {path: (root / path).read_bytes() for path in own.stored}


def read_installed_files(project: Project, covering: CallsByTest) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """The files of the distributions whose modules the tests imported, and their names."""
    own = project.list_top_names()
    own_name = re.sub(r"[-_.]+", "_", project.name).lower()
    files: dict[str, bytes] = {}
    names: list[str] = []
    for place in map(Path, covering.path):
        for info, paths, packages in _iterate_used(place, own_name, covering.files):
            names.append(info.name.removesuffix(".dist-info").replace("-", " ", 1))
            for path in paths:
                if _is_needed(path, info, own):
                    _add_file(files, path, place / path)
            for package in packages:
                for path, file in iterate_package_files(package):
                    _add_file(files, path, file)
    if "pytest/__init__.py" not in files:
        raise ArchiveError('the tests were not run by pytest: give --tests "python -m pytest -q"')
    return files, tuple(sorted(names))


def _iterate_used(place: Path, own_name: str, files: Sequence[str]) -> Iterator[tuple[Path, list[str], set[Path]]]:
    """The `.dist-info` of each distribution with one of the files, and of the project itself; the paths in its RECORD;
    the used packages of one in editable mode."""
    used = {Path(file).relative_to(place).as_posix() for file in files if Path(file).is_relative_to(place)}
    for info in sorted(place.glob("*.dist-info")):
        paths = list(_read_record(info))
        name = re.sub(r"[-_.]+", "_", info.name.partition("-")[0]).lower()
        folder = None if name == own_name else find_editable_project(info)
        packages = find_used_packages(folder, files) if folder else set()
        if name == own_name or (name not in _WITHOUT and (packages or used.intersection(paths))):
            yield info, paths, packages


def _is_needed(path: str, info: Path, own: frozenset[str]) -> bool:
    """Whether tests may read an installed file. The `own` modules of the project are not among them."""
    if path.startswith("__editable__") or not is_relative(path):
        return False
    if path.startswith(f"{info.name}/"):
        return path.rpartition("/")[2] in _METADATA
    return own.isdisjoint((path.partition("/")[0], path.removesuffix(".py")))


def _add_file(files: dict[str, bytes], path: str, file: Path) -> None:
    """Add a file that tests may read, unless its path is taken."""
    content = None if path.endswith((".pyc", ".pyi", ".h", ".c")) else _read_content(file)
    if content is not None:
        files.setdefault(path, content)


def _read_record(info: Path) -> Iterator[str]:
    """The paths in a distribution's RECORD; some lead out of the folder of packages."""
    try:
        rows = list(csv.reader((info / "RECORD").read_text("utf-8").splitlines()))
    except (OSError, UnicodeError, csv.Error):
        return
    yield from (row[0] for row in rows if row)


def _read_content(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.is_file() and path.stat().st_size <= 2 * MAX_FILE_BYTES else None
    except OSError:
        return None
