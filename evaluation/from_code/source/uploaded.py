"""A project that was sent as an archive: its files, all checked before one of them is written."""

from __future__ import annotations

import io
import re
import stat
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO

from evaluation.from_code.reasons import ProjectError
from evaluation.from_code.source.find import find_functions
from evaluation.from_code.source.project import open_project
from evaluation.project_tests.archive import is_relative

ARCHIVE_SUFFIXES = (".zip", ".tar.gz", ".tgz")
MAX_BYTES = 64 * 2**20
"""Of all files together, unpacked."""
MAX_FILES = 10_000
_LEFT_OUT = frozenset((".git", ".hg", ".svn", "__pycache__", "node_modules"))
"""Folders that no tests need; the settings in some make git start programs."""
_UNREADABLE = (OSError, EOFError, ValueError, RuntimeError, zlib.error, tarfile.TarError, zipfile.BadZipFile)
_ROOT = Path(__file__).resolve().parents[3]
_READ = "import sys; from evaluation.from_code.source.uploaded import read_sources; read_sources(sys.argv[1])"
_READ_S = 120.0


def unpack_project(data: bytes, name: str) -> dict[str, bytes]:
    """The files of an archive by their paths in the project. A folder around all of them is left out, unless it is
    a package.

    Raises ProjectError, with one sentence, for an archive that is too large, cannot be read, or holds anything but
    files and folders below its own.
    """
    called = name[:100]
    if not name.lower().endswith(ARCHIVE_SUFFIXES):
        raise ProjectError(f"{called} is not an archive: give a file that ends with {', '.join(ARCHIVE_SUFFIXES)}")
    read = _read_zip if name.lower().endswith(".zip") else _read_tar
    files: dict[str, bytes] = {}
    left = MAX_BYTES
    try:
        for number, (path, opened) in enumerate(read(data)):
            content = opened.read(left + 1)
            left -= len(content)
            if number >= MAX_FILES or left < 0:
                raise ProjectError(
                    f"{called} has more than {MAX_FILES:,} files or {MAX_BYTES // 2**20} MiB: leave out what the tests "
                    "do not need"
                )
            files[path] = content
    except ProjectError:  # a ValueError, too
        raise
    except _UNREADABLE as error:
        raise ProjectError(f"{called} cannot be read: {error}") from None
    files = {path: content for path, content in files.items() if not _LEFT_OUT.intersection(path.split("/"))}
    if not files:
        raise ProjectError(f"{called} holds no file: pack the folder of the project")
    return _remove_outer_folder(files)


def _read_zip(data: bytes) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for entry in archive.infolist():
            kind = stat.S_IFMT(entry.external_attr >> 16)
            path = _check_path(entry.filename, kind in (0, stat.S_IFREG, stat.S_IFDIR))
            if not entry.is_dir():
                with archive.open(entry) as opened:
                    yield path, opened


def _read_tar(data: bytes) -> Iterator[tuple[str, IO[bytes]]]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r|gz") as archive:
        for entry in archive:
            path = _check_path(entry.name, entry.isreg() or entry.isdir())
            opened = archive.extractfile(entry) if entry.isreg() else None
            if opened is not None:
                yield path, opened


def _check_path(path: str, is_plain: bool) -> str:
    """The path of an entry without `.`. Raises ProjectError for links, devices and paths that leave the folder."""
    if not is_plain:
        raise ProjectError(f"the archive holds something other than files and folders: remove {path[:100]!r}")
    if PurePosixPath(path).parts and (not is_relative(path) or "\\" in path):
        raise ProjectError(f"a path in the archive leads out of its folder: remove {path[:100]!r}")
    return str(PurePosixPath(path))


def _remove_outer_folder(files: Mapping[str, bytes]) -> dict[str, bytes]:
    outer = {path.partition("/")[0] for path in files}
    (first, *others) = outer
    if others or first in files or f"{first}/__init__.py" in files:
        return dict(files)
    return {path.removeprefix(f"{first}/"): content for path, content in files.items()}


def derive_name(name: str) -> str:
    """The name of the project in an archive of this name, as a folder may have it."""
    stem = re.sub(r"(?i)(\.zip|\.tar\.gz|\.tgz)$", "", name)
    return re.sub(r"[^\w.-]+", "-", stem, flags=re.ASCII).strip("-.")[:100] or "project"


def write_project(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the files of `unpack_project` into a new folder. Raises ProjectError."""
    try:
        folder.mkdir(parents=True)
        for path, content in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as file:
                file.write(content)
    except OSError as error:
        raise ProjectError(f"the project's files cannot be written: {error.strerror}") from None


def check_sources(folder: Path) -> None:
    """Read the project once in a process of its own, which a hostile source may bring down. Raises ProjectError."""
    try:
        done = subprocess.run(
            [sys.executable, "-s", "-P", "-B", "-c", _READ, str(folder)],
            env={"PYTHONPATH": str(_ROOT), "PYTHONUTF8": "1"}, capture_output=True, timeout=_READ_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ProjectError(f"the project cannot be read within {_READ_S:g} s: send a smaller part of it") from None
    if done.returncode:
        raise ProjectError("Python cannot read the project's source: its parser failed on one of the files")


def read_sources(folder: str) -> None:
    """What the process of `check_sources` does: read a project and find its functions."""
    try:
        find_functions(open_project(folder))
    except ProjectError:
        return  # the caller will say so
