"""Migrations: linear, up and down on both databases, models equal to the schema, every constraint named."""

from __future__ import annotations

import threading

from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from app import migrate, tables
from app.accounts.service import list_tokens
from app.db import Database
from app.states import Scope


def test_up_down_up_and_equal_to_the_models(database_url):
    database = Database(database_url)
    migrate.upgrade(database)
    assert migrate.current(database) == migrate.head()
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, tables.metadata) == []
    migrate.downgrade(database, "base")
    assert set(inspect(database.engine).get_table_names()) <= {"alembic_version"}
    migrate.upgrade(database)
    database.dispose()


def test_whoever_could_do_everything_still_can_after_scopes_came(database_url):
    database = Database(database_url)
    migrate.upgrade(database, "0001")
    with database.engine.begin() as connection:
        connection.execute(
            text("INSERT INTO tokens (id, name, prefix, sha256, created_at) VALUES (:id, 'old', 'p', 'd', :now)"),
            {"id": "0190000000007000800000000000000a", "now": "2026-01-01 00:00:00+00:00"},
        )
    migrate.upgrade(database)
    with database.read() as session:
        assert [(t.name, t.scope) for t in list_tokens(session)] == [("old", Scope.ADMIN)]
    migrate.downgrade(database, "0001")
    with database.engine.connect() as connection:
        assert connection.execute(text("SELECT name FROM tokens")).scalars().all() == ["old"]
    database.dispose()


def test_two_processes_may_upgrade_at_once(database_url):
    faults: list[Exception] = []

    def upgrade():
        database = Database(database_url)
        try:
            migrate.upgrade(database)
        except Exception as error:
            faults.append(error)
        finally:
            database.dispose()

    threads = [threading.Thread(target=upgrade) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def test_revisions_are_numbered_and_linear():
    config = Config()
    config.set_main_option("script_location", str(migrate.MIGRATIONS))
    revisions = list(reversed(list(ScriptDirectory.from_config(config).walk_revisions())))
    assert [r.revision for r in revisions] == [f"{i:04d}" for i in range(1, len(revisions) + 1)]


def test_every_constraint_has_a_name():
    for table in tables.metadata.tables.values():
        for constraint in table.constraints:
            assert constraint.name, f"{table.name}: {constraint}"
