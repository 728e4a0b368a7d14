"""PostgreSQL and Redis of this machine as private servers, to be killed and started again at will."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import IO

import pytest

from benchmarks import _postgres
from tests.integration.waiting import wait_for

PORTS = range(20_000, 30_000)
"""Below the ports that Linux gives to clients."""
_reserved: list[IO[bytes]] = []


def free_port() -> int:
    """A port of this machine that no other test process uses, whatever suite it belongs to, while this one lives."""
    folder = Path(tempfile.gettempdir()) / f"bassline-test-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    for port in random.sample(PORTS, len(PORTS)):
        lock = (folder / str(port)).open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except OSError:
            lock.close()
            continue
        _reserved.append(lock)
        return port
    raise AssertionError("every port for tests is in use")


class Server:
    """A server process in a group of its own; skips the test where the program is not installed."""

    command: list[str]
    folder: Path
    user: dict[str, str] = {}  # noqa: RUF012

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command,
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
        try:
            self._cluster = _postgres.create_cluster("fsync=off", "max_connections=200")
        except _postgres.NotInstalledError as error:
            pytest.skip(str(error))
        self.folder, self.command, self.url = self._cluster.folder, self._cluster.command, self._cluster.url
        self.user = _postgres.choose_server_identity()
        self.start()

    def answers(self) -> bool:
        if self.process.poll() is not None:  # a backend of the killed server was still there
            self.start()
        return self._cluster.is_ready()


class Redis(Server):
    """Without persistence: a killed one has forgotten every message."""

    def __init__(self) -> None:
        if shutil.which("redis-server") is None:
            pytest.skip("Redis is not installed (redis-server not found)")
        self.folder = Path(tempfile.mkdtemp(prefix="bassline-redis-"))
        self._port = free_port()
        self.command = [
            *("redis-server", "--port", str(self._port), "--bind", "127.0.0.1"),
            *("--save", "", "--appendonly", "no"),
        ]
        self.url = f"redis://127.0.0.1:{self._port}/0"
        self.start()

    def answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0
