"""Private PostgreSQL clusters from the programs of this machine, for benchmarks and tests."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_START_S = 60.0
_STOP_S = 60.0


class NotInstalledError(RuntimeError):
    """There is no PostgreSQL on this machine."""


@dataclass(frozen=True)
class Cluster:
    """A cluster without a server process. `command` starts one in the foreground, on a unix socket in `folder`."""

    folder: Path
    command: list[str]
    url: str
    _pg_isready: list[str]

    def is_ready(self) -> bool:
        """Whether the server accepts connections."""
        return subprocess.run(self._pg_isready, capture_output=True, check=False).returncode == 0


def find_programs() -> Path | None:
    """The folder of initdb, postgres and pg_isready of the newest version; None where there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda file: float(file.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


def choose_server_identity() -> dict[str, Any]:
    """Arguments for subprocess: PostgreSQL refuses to run as root, so for root it runs as `postgres`.

    Not as `nobody`: the sandbox runs programs as `nobody`, and its self-test looks for processes that they left.
    """
    return {"user": "postgres"} if os.getuid() == 0 else {}


def create_cluster(*options: str) -> Cluster:
    """A new cluster with an empty database; `options` are settings of the server (NAME=VALUE). Raises
    NotInstalledError."""
    where = find_programs()
    if where is None:
        raise NotInstalledError(
            "PostgreSQL is not installed (initdb not found): install it, or name an empty database with --database"
        )
    folder = Path(tempfile.mkdtemp(prefix="bassline-pg-"))
    if os.getuid() == 0:
        shutil.chown(folder, "postgres")
    data = str(folder / "data")
    initdb = [str(where / "initdb"), "-D", data, "-U", "bassline", "-A", "trust", "-E", "UTF8", "--no-locale"]
    try:
        subprocess.run([*initdb, "--no-sync"], check=True, capture_output=True, cwd=folder, **choose_server_identity())
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    settings = [word for option in ("listen_addresses=", *options) for word in ("-c", option)]
    return Cluster(
        folder,
        command=[str(where / "postgres"), "-D", data, "-k", str(folder), *settings],
        url=f"postgresql+psycopg://bassline@/postgres?host={folder}",
        _pg_isready=[str(where / "pg_isready"), "-h", str(folder)],
    )


@contextmanager
def run_cluster() -> Iterator[str]:
    """The URL of an empty database in a running cluster, removed afterwards; default settings except max_wal_size.

    Raises NotInstalledError, and RuntimeError where the server does not start.
    """
    cluster = create_cluster("max_wal_size=8GB")
    log = cluster.folder / "log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            cluster.command, cwd=cluster.folder, stdout=output, stderr=output, start_new_session=True,
            **choose_server_identity(),
        )  # fmt: skip
    try:
        deadline = time.monotonic() + _START_S
        while not cluster.is_ready():
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL does not start: {log.read_text().strip()}")
            time.sleep(0.05)
        yield cluster.url
    finally:
        server.send_signal(signal.SIGQUIT)  # at once: the data is removed
        server.wait(_STOP_S)
        shutil.rmtree(cluster.folder, ignore_errors=True)
