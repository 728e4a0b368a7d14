"""A service of the benchmark's own: `bassline serve` in a process, with an empty data folder, removed afterwards."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_OWN = {
    "BASSLINE_DATABASE_URL": "",
    "BASSLINE_BROKER_URL": "memory://",
    "BASSLINE_EVENTS_URL": "",
    "BASSLINE_REQUIRE_TOKENS": "false",
    "BASSLINE_RATE_LIMIT": "",
}
_ADDRESS = re.compile(r"^Bassline is at (http://\S+)", re.MULTILINE)
_START_S = 120.0
_STOP_S = 30.0


class ServiceError(RuntimeError):
    """A service that does not start or does not answer; the message says why."""


@contextmanager
def own_service() -> Iterator[str]:
    """The address of a service with the settings of this process. Raises ServiceError where it does not start."""
    with tempfile.TemporaryDirectory(prefix="bassline-load-") as folder:
        log = Path(folder) / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "app.cli", "serve", "--port", "0"],
                stdout=output, stderr=output, env={**os.environ, **_OWN, "BASSLINE_DATA_DIR": folder},
                start_new_session=True,  # Ctrl-C is for the benchmark, which stops it when it has reported
            )  # fmt: skip
        try:
            yield _address(process, log)
        finally:
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + _START_S
    while (found := _ADDRESS.search(said := log.read_text(errors="replace"))) is None:
        if process.poll() is not None or time.monotonic() > deadline:
            last = (said.strip().splitlines() or ["it says nothing"])[-1]
            raise ServiceError(f"`bassline serve` does not start: {last}")
        time.sleep(0.05)
    return found[1]
