"""Finds programs of a toolchain that the sandbox's user can start."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock

from evaluation.languages.base import ToolchainError
from evaluation.sandbox.interpreter import get_dropped_identity
from evaluation.sandbox.jobs import describe_exit

_PREPARE_S, _START_S = 600, 20
T = TypeVar("T")
_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?")


def parse_version(executable: str, text: str) -> tuple[int, ...]:
    """The numbers of the version in what a program says. Raises ToolchainError if there is none."""
    found = _VERSION.search(text)
    if found is None:
        raise ToolchainError(f"{executable} does not say its version")
    return tuple(map(int, found[0].split(".")))


def find_executable(
    executables: Iterable[str | None], oldest: tuple[int, ...], *arguments: str
) -> tuple[str, tuple[int, ...]]:
    """The first program that starts as the sandbox's user and is not older than `oldest`, and its version.

    Raises ToolchainError.
    """

    def ask(path: str) -> tuple[str, tuple[int, ...]]:
        executable = path if is_reachable(path) else _copy(path)
        said = run_tool([executable, *arguments], {}, limit_s=_START_S, **get_dropped_identity())
        return executable, parse_version(executable, said)

    paths = (os.path.realpath(path) for path in executables if path and Path(path).exists())
    return find_recent(dict.fromkeys(paths), oldest, ask)


def find_recent(
    paths: Iterable[str], oldest: tuple[int, ...], ask: Callable[[str], tuple[T, tuple[int, ...]]]
) -> tuple[T, tuple[int, ...]]:
    """What `ask` says of the first program that is not older than `oldest`, and its version. Raises ToolchainError."""
    tried: list[str] = []
    for path in paths:
        try:
            found, version = ask(path)
        except (ToolchainError, OSError, ValueError) as error:
            tried.append(str(error))
            continue
        if version >= oldest:
            return found, version
        tried.append(f"{path} is version {'.'.join(map(str, version))}")
    wanted = ".".join(map(str, oldest))
    raise ToolchainError(f"version {wanted} or later is needed: {'; '.join(tried) or 'there is none'}")


def prepare_folder(key: str, fill: Callable[[Path], object]) -> Path:
    """A folder that the sandbox's user can read, filled once and kept for later processes. Raises ToolchainError."""
    folder = _get_temporary_folder() / f"bassline-{key}-{os.geteuid()}"
    complete = folder / "complete"
    try:
        with FileLock(f"{folder}.lock"):
            if not complete.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                fill(folder)
                for path in (folder, *folder.rglob("*")):
                    path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
                complete.touch()
    except OSError as error:
        raise ToolchainError(f"{folder} cannot be made: {error.strerror or error}") from error
    _check_owner(folder)
    return folder


def run_tool(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    given: str = "",
    limit_s: float = _PREPARE_S,
    **identity: Any,
) -> str:
    """What a program of the toolchain prints; it is trusted and runs as this process does, or with Popen's `identity`.

    Raises ToolchainError.
    """
    try:
        done: subprocess.CompletedProcess[bytes] = subprocess.run(
            command, env=environment, cwd=folder or "/", input=given.encode(), capture_output=True, timeout=limit_s,
            check=True, **identity,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolchainError(f"{command[0]} {_describe_failure(error)}") from error
    return (done.stdout or done.stderr).decode("utf-8", "replace")


def _get_temporary_folder() -> Path:
    """The folder for temporary files, where compiled answers run as well. Raises ToolchainError where none can."""
    folder = tempfile.gettempdir()
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        raise ToolchainError(f"no program can run in {folder} (noexec): set TMPDIR to a folder where programs can run")
    return Path(folder)


def _describe_failure(error: OSError | subprocess.SubprocessError) -> str:
    """How a program of a toolchain failed, and the first line that it printed."""
    if isinstance(error, subprocess.CalledProcessError):
        printed = (error.stderr or error.stdout).decode("utf-8", "replace").strip().partition("\n")[0]
        return f"ended with {describe_exit(error.returncode)}{': ' if printed else ''}{printed}"
    if isinstance(error, subprocess.TimeoutExpired):
        return f"does not end within {error.timeout:g} s"
    return f"does not start: {error.strerror if isinstance(error, OSError) else error}"


def _check_owner(path: Path) -> None:
    facts = path.lstat()
    if facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
        raise ToolchainError(f"{path} belongs to somebody else or others may write to it: delete it, or set TMPDIR")


def is_reachable(path: str) -> bool:
    """Whether the sandbox's user can reach a file: with root's rights dropped, every folder above it must allow it."""
    return not get_dropped_identity() or all(folder.stat().st_mode & 0o001 for folder in Path(path).parents)


def _copy(path: str) -> str:
    """A copy of one self-contained program where the sandbox's user can start it."""
    facts = Path(path).stat()
    name = f"{Path(path).name}-{facts.st_size:x}-{facts.st_mtime_ns:x}"
    folder = prepare_folder(name, lambda folder: shutil.copy(path, folder))
    return str(folder / Path(path).name)
