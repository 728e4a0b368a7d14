"""A service of the benchmark's own: `bassline serve` with an empty data folder; and what other programs take."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from app.jobs.work import machine_use

_SETTINGS = {
    "BASSLINE_DATABASE_URL": "",
    "BASSLINE_BROKER_URL": "memory://",
    "BASSLINE_REQUIRE_TOKENS": "false",
    "BASSLINE_RATE_LIMIT": "",
}
_ADDRESS = re.compile(r"^Bassline is at (http://\S+)", re.MULTILINE)
_START_S = 120.0
_STOP_S = 30.0


class ServiceError(RuntimeError):
    """A service that does not start or does not answer; the message says why."""


@contextmanager
def serve_own() -> Iterator[str]:
    """The address of a service with the settings of this process. Raises ServiceError where it does not start."""
    with tempfile.TemporaryDirectory(prefix="bassline-load-") as folder:
        log = Path(folder) / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "app.cli", "serve", "--port", "0"],
                stdout=output, stderr=output, env={**os.environ, **_SETTINGS, "BASSLINE_DATA_DIR": folder},
                start_new_session=True,  # Ctrl-C is for the benchmark, which stops it when it has reported
            )  # fmt: skip
        try:
            yield _read_address(process, log)
        finally:
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _read_address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + _START_S
    while (found := _ADDRESS.search(said := log.read_text(errors="replace"))) is None:
        if process.poll() is not None or time.monotonic() > deadline:
            last = (said.strip().splitlines() or ["it says nothing"])[-1]
            raise ServiceError(f"`bassline serve` does not start: {last}")
        time.sleep(0.05)
    return found[1]


def watch_others() -> Callable[[], float | None]:
    """Begins to measure. The result gives the share of this machine that others took since, at most 1.

    Others are all but this process and its children: the services that it measures. None where the system does not
    show it.
    """
    before = machine_use.read_cpu_counters(_measure_cpu_seconds())

    def lost() -> float | None:
        use = machine_use.compute_use_since(before, _measure_cpu_seconds())
        return None if use is None else min((use.others_cpu_s + use.steal_s) / use.capacity_s, 1.0)

    return lost


def _measure_cpu_seconds() -> float:
    """CPU seconds of this process and its children, also of those that have ended."""
    this, total = psutil.Process(), 0.0
    for process in (this, *this.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.Error:  # it has just ended
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total
