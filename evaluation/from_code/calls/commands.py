"""Runs one command of a project's tests, and ends it with everything that it started.

The tests are the user's code in the user's environment: nothing confines them. They get a wall-clock limit; their
output is read to its end and its last part kept. They run below a process of their own, since all that is started there
is ended with them: a server has other children.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
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
_ROOT = Path(__file__).resolve().parents[3]
_SERVE = "from evaluation.from_code.calls.commands import serve; serve()"
_REFUSED = 3
_QUERY_PERSONALITY, _ADDR_NO_RANDOMIZE = 0xFFFFFFFF, 0x0040000
"""Of personality(2)."""


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
    apart = subprocess.Popen(
        [sys.executable, "-s", "-P", "-B", "-c", _SERVE],
        env={**os.environ, "PYTHONPATH": str(_ROOT), "PYTHONUTF8": "1"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, preexec_fn=end_with_parent,  # noqa: PLW1509  (no import and no lock in there)
    )  # fmt: skip
    assert apart.stdin is not None
    assert apart.stdout is not None
    started = time.monotonic()
    try:
        with contextlib.suppress(BrokenPipeError), apart.stdin as asked:
            asked.write(json.dumps([list(command), str(folder), environment, limit_s]).encode())
        while not select.select([apart.stdout], [], [], 1.0)[0]:
            on_second(time.monotonic() - started)
        answer = apart.stdout.read()
    finally:
        apart.terminate()  # it ends the tests first
        apart.wait()
        apart.stdout.close()
    if apart.returncode == _REFUSED:
        raise ProjectError(answer.decode())
    if apart.returncode:
        raise ProjectError(f"the process that runs the tests ended with {apart.returncode}: they may have ended it")
    exit_code, output = json.loads(answer)
    return exit_code, output


def serve() -> None:
    """The process: reads a command as JSON, runs it, and writes its exit code and the end of its output."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    _disable_address_randomization()
    command, folder, environment, limit_s = json.load(sys.stdin)
    try:
        answer = json.dumps(_run(command, folder, environment, limit_s))
    except ProjectError as error:
        sys.stdout.buffer.write(str(error).encode("utf-8", "replace"))
        sys.exit(_REFUSED)
    sys.stdout.buffer.write(answer.encode())


def _disable_address_randomization() -> None:
    """Give the programs that this process starts the same addresses each time, where that is allowed: before Python
    3.12 the order of a set with None in it depends on them, and so do the calls that tests make."""
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    libc.personality.argtypes = (ctypes.c_ulong,)
    libc.personality(libc.personality(_QUERY_PERSONALITY) | _ADDR_NO_RANDOMIZE)


def _run(command: Sequence[str], folder: str, environment: dict[str, str], limit_s: float) -> tuple[int | None, str]:
    with adopt_orphans():
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
        exit_code: int | None = None
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                exit_code = process.wait(limit_s)
        finally:
            _end(process)
            reader.join(_END_S)
    return exit_code, bytes(tail).decode("utf-8", "replace")


def _read_tail(process: subprocess.Popen[bytes], tail: bytearray) -> None:
    assert process.stdout is not None
    with contextlib.suppress(OSError, ValueError):
        while data := process.stdout.read1(65536):  # type: ignore[attr-defined]
            tail += data
            del tail[:-_KEPT_OUTPUT]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the tests and all that they started. Processes that start meanwhile are found in the next round."""
    until = time.monotonic() + _END_S
    left = find_descendants(())
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    while left and time.monotonic() < until:
        for each in left:
            with contextlib.suppress(psutil.Error):
                each.kill()
        process.wait()
        psutil.wait_procs(left, 1.0)
        left = find_descendants(())
    process.wait()
