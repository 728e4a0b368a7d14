"""Runs one command of a project's tests, and ends it with everything that it started.

The tests are the user's code in the user's environment: nothing confines them. They get a wall-clock limit; their
output is read to its end and its last part kept.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil

from evaluation.from_code.reasons import ProjectError

_KEPT_OUTPUT = 8 * 2**10
_END_S = 5.0
"""Seconds to wait for killed processes to be gone."""
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER, _GET_CHILD_SUBREAPER = 1, 36, 37


def resolve_command(command: Sequence[str], python: str) -> list[str]:
    """The command with the interpreter `python` where it begins with `python`, `python3` or `pytest`."""
    name, *arguments = command
    if name in ("python", "python3"):
        return [python, *arguments]
    if name == "pytest":
        return [python, "-m", "pytest", *arguments]
    return list(command)


def run_command(
    command: Sequence[str],
    folder: Path,
    environment: dict[str, str],
    limit_s: float,
    on_second: Callable[[float], None],
) -> tuple[int | None, str]:
    """(exit code, the end of its output) of a command in `folder`; the exit code is None at the limit of seconds.

    What it started is ended too, daemons included. Raises ProjectError where it cannot be started.
    """
    with adopting_orphans():
        others = set(psutil.Process().children())
        try:
            process = subprocess.Popen(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=_end_with_parent,  # noqa: PLW1509  (no import and no lock in there)
            )  # fmt: skip
        except OSError as error:
            raise ProjectError(
                f"the tests cannot be started: {command[0]}: {error.strerror}; name the project's interpreter in full, "
                'as in --tests "/path/to/venv/bin/python -m pytest -q"'
            ) from None
        tail = bytearray()
        reader = threading.Thread(target=_read_tail, args=(process, tail), daemon=True)
        reader.start()
        started = time.monotonic()
        try:
            while (passed := time.monotonic() - started) < limit_s:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(min(1.0, limit_s - passed))
                    break
                on_second(passed)
        finally:
            exit_code = process.poll()
            _end(process, others)
            reader.join(_END_S)
    return exit_code, bytes(tail).decode("utf-8", "replace")


@contextlib.contextmanager
def adopting_orphans() -> Iterator[None]:
    """Inside, a descendant whose parent has ended becomes a child of this process, where `_end` finds it."""
    if _PRCTL is None:
        yield
        return
    before = ctypes.c_int()
    _PRCTL(_GET_CHILD_SUBREAPER, ctypes.byref(before))
    _PRCTL(_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        _PRCTL(_SET_CHILD_SUBREAPER, before.value)


def _end_with_parent() -> None:
    """In the new process: the tests end if this process is killed, so that no second ones start beside them."""
    if _PRCTL is not None:
        _PRCTL(_SET_PDEATHSIG, signal.SIGKILL)


def _read_tail(process: subprocess.Popen[bytes], tail: bytearray) -> None:
    assert process.stdout is not None
    with contextlib.suppress(OSError, ValueError):
        while data := process.stdout.read1(65536):  # type: ignore[attr-defined]
            tail += data
            del tail[:-_KEPT_OUTPUT]


def _end(process: subprocess.Popen[bytes], others: set[psutil.Process]) -> None:
    """End the tests and all that they started; `others` are children of this process that have nothing to do with them.

    Processes that start while others are being killed are found in the next round.
    """
    until = time.monotonic() + _END_S
    left = _descendants(others)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    while left and time.monotonic() < until:
        for each in left:
            with contextlib.suppress(psutil.Error):
                each.kill()
        process.wait()
        psutil.wait_procs(left, 1.0)
        left = _descendants(others)
    process.wait()


def _descendants(others: set[psutil.Process]) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for child in set(psutil.Process().children()) - others:
        found.append(child)
        with contextlib.suppress(psutil.Error):
            found += child.children(recursive=True)
    return found
