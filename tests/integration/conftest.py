"""SQLite always; PostgreSQL and Redis of this machine where they are installed, private and thrown away afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from sqlalchemy import inspect
from sqlalchemy.engine import make_url

from app.core.context import Context
from app.core.db import migrate
from app.core.db.database import Database
from app.core.events.bus import MemoryBus
from app.core.settings import Settings
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


@pytest.fixture(scope="session")
def migrated_postgres(postgres_url) -> str:
    """A database at the newest migration."""
    execute(postgres_url, "CREATE DATABASE migrated")
    url = make_url(postgres_url).set(database="migrated").render_as_string(hide_password=False)
    migrate_once(url)
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def migrated_url(request, tmp_path) -> str:
    """A database of each kind at the newest migration, without rows."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("migrated"), tmp_path / "bassline.db")
        return f"sqlite:///{tmp_path / 'bassline.db'}"
    url = request.getfixturevalue("migrated_postgres")
    delete_rows(url)
    return url


sqlite_when_thorough = pytest.mark.parametrize(
    "migrated_url", [pytest.param("sqlite", marks=pytest.mark.thorough), "postgresql"], indirect=True
)
"""For tests of logic over rows that reads and locks them in ways that both databases have: tests/app is on SQLite."""


@pytest.fixture
def ctx(migrated_url, tmp_path) -> Iterator[Context]:
    """A context over each kind of database, with the fakes behind the ports."""
    settings = Settings(_env_file=None, data_dir=tmp_path, database_url=migrated_url, heartbeat_s=0.1)
    database = Database(settings.effective_database_url)
    engine = FakeEngine()
    yield Context(
        settings, database, MemoryBus(), load_engine=lambda config, on_progress: engine, make_grader=FakeGrader
    )
    database.dispose()


def execute(url: str, statement: str) -> None:
    """Executes a statement that no transaction may hold."""
    database = Database(url)
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(statement)
    database.dispose()


def delete_rows(url: str) -> None:
    """Empties every table of a PostgreSQL database, which costs a hundredth of another copy of it.

    First it ends the connections that threads of an earlier test may still hold.
    """
    database = Database(url)
    with database.engine.begin() as connection:
        connection.exec_driver_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        connection.exec_driver_sql("SET LOCAL session_replication_role = replica")  # in any order of the tables
        for table in inspect(connection).get_table_names():
            if table != "alembic_version":
                connection.exec_driver_sql(f"DELETE FROM {table}")
    database.dispose()


def migrate_once(url: str) -> None:
    """Brings a database to the newest migration and leaves no connection to it, so that it can be copied."""
    database = Database(url)
    migrate.upgrade(database)
    database.dispose()
