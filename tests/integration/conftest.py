"""SQLite always; PostgreSQL and Redis of this machine where they are installed, private and thrown away afterwards."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import migrate
from app.context import Context
from app.db import Database
from app.events.bus import MemoryBus
from app.settings import Settings
from tests.fakes import FakeEngine, FakeGrader


def postgres_programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory) -> Iterator[str]:
    """A private cluster on a unix socket, without durability; skipped where PostgreSQL is not installed."""
    programs = postgres_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (initdb not found)")
    user: dict = {}
    folder = tmp_path_factory.mktemp("pg")
    if os.getuid() == 0:  # PostgreSQL refuses to run as root
        user = {"user": "nobody"}
        folder = Path(subprocess.run(["mktemp", "-d"], check=True, capture_output=True, text=True).stdout.strip())
        shutil.chown(folder, "nobody")
    data = folder / "data"
    subprocess.run(
        [programs / "initdb", "-D", data, "-U", "bassline", "-A", "trust", "--no-sync"],
        check=True,
        capture_output=True,
        cwd=folder,
        **user,
    )
    server = subprocess.Popen(
        [programs / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **user,
    )
    try:
        ready = [programs / "pg_isready", "-h", folder]
        wait_for(lambda: subprocess.run(ready, capture_output=True, check=False).returncode == 0)
        yield f"postgresql+psycopg://bassline@/postgres?host={folder}"
    finally:
        server.terminate()
        server.wait(20)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory) -> Iterator[str]:
    """A private Redis on a free port; skipped where Redis is not installed."""
    if shutil.which("redis-server") is None:
        pytest.skip("Redis is not installed (redis-server not found)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"],
        cwd=tmp_path_factory.mktemp("redis"),
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.terminate()
        server.wait(20)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request, tmp_path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'bassline.db'}"
    url = request.getfixturevalue("postgres_url")
    emptied = Database(url)
    with emptied.engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    emptied.dispose()
    return url


@pytest.fixture
def ctx(database_url, tmp_path) -> Iterator[Context]:
    """A context over each kind of database, with the fakes behind the ports."""
    settings = Settings(_env_file=None, data_dir=tmp_path, database_url=database_url, lease_s=1.0, heartbeat_s=0.1)
    database = Database(settings.database)
    migrate.upgrade(database)
    engine = FakeEngine()
    yield Context(
        settings, database, MemoryBus(), load_engine=lambda config, on_progress: engine, make_grader=FakeGrader
    )
    database.dispose()


def wait_for(condition, timeout_s: float = 30.0) -> None:
    limit = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < limit, "condition did not come true in time"
        time.sleep(0.05)
