"""Runs one command of a project's tests, and ends it with everything that it started.

The tests are the user's code in the user's environment: nothing confines them. They get a wall-clock limit; their
output is read to its end and its last part kept.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from evaluation.descendants import adopt_orphans, end_with_parent, find_descendants
from evaluation.from_code.reasons import ProjectError

_KEPT_OUTPUT = 8 * 2**10
_END_S = 5.0
"""Seconds to wait for killed processes to be gone."""


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
    with adopt_orphans():
        others = set(psutil.Process().children())
        try:
            process = subprocess.Popen(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=end_with_parent,  # noqa: PLW1509  (no import and no lock in there)
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
    left = find_descendants(others)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    while left and time.monotonic() < until:
        for each in left:
            with contextlib.suppress(psutil.Error):
                each.kill()
        process.wait()
        psutil.wait_procs(left, 1.0)
        left = find_descendants(others)
    process.wait()
