"""SQLite always; PostgreSQL and Redis of this machine where they are installed, private and thrown away afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.context import Context
from app.db import migrate
from app.db.database import Database
from app.events.bus import MemoryBus
from app.settings import Settings
from tests.fakes import FakeEngine, FakeGrader
from tests.integration.servers import Postgres, Redis


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    server = Postgres()
    yield server.url
    server.remove()


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    server = Redis()
    yield server.url
    server.remove()


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
