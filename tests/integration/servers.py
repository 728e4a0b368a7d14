"""PostgreSQL and Redis of this machine as private servers, to be killed and started again at will."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from benchmarks import _postgres
from tests.integration.waiting import wait_for


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server process in a group of its own; skips the test where the program is not installed."""

    command: list[object]
    folder: Path
    user: dict[str, str] = {}  # noqa: RUF012

    def start(self) -> None:
        self.process = subprocess.Popen(
            [str(word) for word in self.command],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **self.user,
        )
        wait_for(self.answers)

    def answers(self) -> bool:
        raise NotImplementedError

    def kill(self) -> None:
        """SIGKILL, to the server and its children."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(20)

    def remove(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.process.wait(20)
        shutil.rmtree(self.folder, ignore_errors=True)


class Postgres(Server):
    """A cluster on a unix socket, without durability against a loss of power."""

    def __init__(self) -> None:
        programs = _postgres.programs()
        if programs is None:
            pytest.skip("PostgreSQL is not installed (initdb not found)")
        self.folder = Path(tempfile.mkdtemp(prefix="bassline-pg-"))
        if os.getuid() == 0:  # PostgreSQL refuses to run as root
            # Not nobody, whose processes a sandbox's self-test takes for its own.
            self.user = _postgres.of_the_server()
            shutil.chown(self.folder, "postgres")
        data = self.folder / "data"
        initdb = [programs / "initdb", "-D", data, "-U", "bassline", "-A", "trust", "--no-sync"]
        subprocess.run(initdb, check=True, capture_output=True, cwd=self.folder, **self.user)
        listen = ["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=200"]
        self.command = [programs / "postgres", "-D", data, "-k", self.folder, *listen]
        self._ready = [programs / "pg_isready", "-h", self.folder]
        self.url = f"postgresql+psycopg://bassline@/postgres?host={self.folder}"
        self.start()

    def answers(self) -> bool:
        if self.process.poll() is not None:  # a backend of the killed server was still there
            self.start()
        return subprocess.run(self._ready, capture_output=True, check=False).returncode == 0


class Redis(Server):
    """Without persistence: a killed one has forgotten every message."""

    def __init__(self) -> None:
        if shutil.which("redis-server") is None:
            pytest.skip("Redis is not installed (redis-server not found)")
        self.folder = Path(tempfile.mkdtemp(prefix="bassline-redis-"))
        self._port = free_port()
        self.command = [
            *("redis-server", "--port", self._port, "--bind", "127.0.0.1"),
            *("--save", "", "--appendonly", "no"),
        ]
        self.url = f"redis://127.0.0.1:{self._port}/0"
        self.start()

    def answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0
