"""Finds programs of a toolchain that the sandbox's user can start."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from evaluation.languages.base import ToolchainError
from evaluation.sandbox.interpreter import identity

_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?")


def version_of(executable: str, *arguments: str) -> tuple[int, ...]:
    """The version that a program prints, asked as the sandbox's user. Raises ToolchainError."""
    try:
        done = subprocess.run(
            [executable, *arguments], env={}, cwd="/", capture_output=True, timeout=20, check=True, **identity()
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolchainError(f"{executable} does not start: {str(error).partition(chr(10))[0]}") from error
    found = _VERSION.search((done.stdout or done.stderr).decode("utf-8", "replace"))
    if found is None:
        raise ToolchainError(f"{executable} does not say its version")
    return tuple(map(int, found[0].split(".")))


def newest(executables: Iterable[str | None], oldest: tuple[int, ...], *arguments: str) -> tuple[str, tuple[int, ...]]:
    """The first program that starts and is not older than `oldest`, and its version. Raises ToolchainError."""
    tried: list[str] = []
    for path in dict.fromkeys(os.path.realpath(path) for path in executables if path and Path(path).exists()):
        try:
            executable = path if is_reachable(path) else _copy(path)
            version = version_of(executable, *arguments)
        except (ToolchainError, OSError) as error:
            tried.append(str(error))
            continue
        if version >= oldest:
            return executable, version
        tried.append(f"{path} is version {'.'.join(map(str, version))}")
    wanted = ".".join(map(str, oldest))
    raise ToolchainError(f"version {wanted} or later is needed: {'; '.join(tried) or 'there is none'}")


def on_path(name: str) -> str | None:
    """The program of that name on PATH."""
    return shutil.which(name)


def is_reachable(path: str) -> bool:
    """Whether the sandbox's user can reach a file: with root's rights dropped, every folder above it must allow it."""
    return not identity() or all(folder.stat().st_mode & 0o001 for folder in Path(path).parents)


def _copy(path: str) -> str:
    """A copy of one self-contained program where the sandbox's user can start it."""
    facts = Path(path).stat()
    name = f"{Path(path).name}-{facts.st_size:x}-{facts.st_mtime_ns:x}"
    return str(kept(name, lambda folder: shutil.copy(path, folder)) / Path(path).name)


def kept(name: str, make: Callable[[Path], object]) -> Path:
    """A folder that `make` fills once, kept for later processes and readable for the sandbox's user.

    `name` must differ with everything that the content depends on. Raises OSError, ToolchainError and what `make` does.
    """
    folder = Path(tempfile.gettempdir()) / f"bassline-{name}-{os.geteuid()}"
    if not folder.exists():
        partial = Path(tempfile.mkdtemp(prefix="bassline-", dir=folder.parent))
        try:
            make(partial)
            for path in (partial, *partial.rglob("*")):
                _make_readable(path)
            partial.rename(folder)
        except OSError:
            if not folder.exists():  # else another process was faster
                raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    known = folder.lstat()
    if known.st_uid != os.geteuid() or known.st_mode & 0o022 or not stat.S_ISDIR(known.st_mode):
        raise ToolchainError(f"{folder} belongs to somebody else: delete it, or set TMPDIR")
    return folder


def _make_readable(path: Path) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    wanted = mode | (0o555 if mode & 0o100 else 0o444)
    if mode != wanted:
        path.chmod(wanted)
